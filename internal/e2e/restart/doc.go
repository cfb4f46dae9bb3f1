// Package restart tests what a server or a watch finds again after its end: backups are restored,
// and watches go on.
package restart
