// Package ship tests log shippers as programs: whatever is killed and started again, every line of
// their files is in a session once.
package ship
