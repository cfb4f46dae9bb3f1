// Package restart tests what a server or a watch finds after a restart: backups are restored, and
// watches continue.
package restart
