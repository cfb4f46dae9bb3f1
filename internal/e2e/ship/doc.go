// Package ship tests log shippers as programs: whatever is killed and restarted, every line of
// their files is in a session exactly once.
package ship
