// Package ship tests log shippers as programs. Shipper and server are killed and restarted, and
// every log line is in a session exactly once.
package ship
