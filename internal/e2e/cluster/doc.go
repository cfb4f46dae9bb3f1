// Package cluster tests servers that share a database, with faults of the servers, the network, the
// database and the object store.
package cluster
