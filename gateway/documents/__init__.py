"""JSON documents that the gateway answers with, as models that the OpenAPI document is made of."""
