// The one function that DSPy's runner imports over the network, so that the peer starts without one.
export async function* readLines(reader: { readable: ReadableStream<Uint8Array> }): AsyncGenerator<string> {
  let rest = "";
  for await (const text of reader.readable.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
  if (rest) yield rest;
}
