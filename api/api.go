// Package api has the contract of the HTTP interface, openapi.yaml, and the Go types of what
// requests and responses hold. The server and package client share these types.
package api

import _ "embed"

// YAML is the contract, openapi.yaml as it is. The types of this package and the routes of the
// server are generated from it, and the server serves it.
//
//go:embed openapi.yaml
var YAML []byte
