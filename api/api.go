// Package api contains openapi.yaml, the OpenAPI contract of the HTTP interface, and the Go types
// of requests and responses. The server and package client share these types.
package api

import _ "embed"

// YAML is the text of openapi.yaml, the OpenAPI contract of the HTTP interface. The types of this
// package and the server's routes are generated from it.
//
//go:embed openapi.yaml
var YAML []byte
