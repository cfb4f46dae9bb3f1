package server

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unsent is the number of bytes that were written to a connection and that the other side has not
// confirmed yet; 0 if that is not known.
func unsent(c net.Conn) (bytes int) {
	socket, ok := c.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
			bytes = n
		}
	})
	return bytes
}
