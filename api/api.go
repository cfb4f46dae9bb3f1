// Package api has the contract of the HTTP interface, openapi.yaml, and the Go types of requests
// and responses. The server and package client share these types.
package api

import _ "embed"

// YAML is the contract, openapi.yaml, unchanged. The types of this package and the server's routes
// are generated from it, and the server serves it.
//
//go:embed openapi.yaml
var YAML []byte
