// Package server is lmserve over HTTP: routes, authentication, limits, streaming and errors, as
// api/openapi.yaml says. It holds no model code: a handler decodes a request, calls one method of
// the session manager, and encodes what the method gives.
//
// # Layers
//
// The packages below server stand in this order, and each imports only packages before it:
//
//	limits      the numbers that bound what the server takes and gives
//	routes      the contract's routes, requests and responses, generated
//	problem     errors as problem documents (RFC 9457): their types, and what is made of an error
//	contract    api/openapi.yaml, ready for use: operations, media types, validation of requests
//	docs        the contract as a page for reading
//	codec       from types of package api to types of package session, and back
//	answer      how an answer leaves: problem documents, event streams, files, and a note of each
//	middleware  what every request passes, one file each
//	handler     the operations of the contract
//	server      puts them together: Options, New, Serve, Drain
//
// # Where to add
//
// A route is an operation in api/openapi.yaml (then `make generate`) and a method of
// handler.Handlers in a file of its own. The generated interface names the method, and the compiler
// asks for it. Routing, authentication, negotiation of the answer's form, limits and validation
// follow from the contract; the tests of this package try every operation of the contract with good
// and bad keys, and hold every answer against it. Fields that requests or answers bring along are
// mapped in package codec, and a method that the handler needs of the session manager stands in
// handler.Sessions.
//
// The examples of the contract are what servers answer: an operation has one in exchanges_test.go
// at least, and LMSERVE_UPDATE_EXAMPLES=1 has the tests write it into the contract.
//
// A middleware is a file in package middleware, and a line in newRouter (routes.go), at its place
// in the order in which a request meets them.
//
// A type of problem is a row in the contract's ProblemType and in problem.Kinds; problem.Of says
// for which error. A limit is a constant in package limits, and a number in the contract's x-limits
// or in the schema of its field; a test holds the two equal.
package server
