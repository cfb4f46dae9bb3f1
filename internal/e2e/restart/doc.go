// Package restart tests that a restored backup gives the same sessions, and that the command watch
// continues after a restart.
package restart
