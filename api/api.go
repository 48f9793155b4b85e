// Package api holds the contract that callers see: openapi.yaml, written by
// hand. The server's types and routes and the Go client are generated from it.
package api

import _ "embed"

//go:generate go tool oapi-codegen -config server.yaml openapi.yaml
//go:generate go tool oapi-codegen -config client.yaml openapi.yaml

// OpenAPI is openapi.yaml, byte for byte; nobody may change it.
//
//go:embed openapi.yaml
var OpenAPI []byte
