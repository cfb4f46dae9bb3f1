// Package cluster tests servers that share a database, while what they depend on fails.
package cluster
