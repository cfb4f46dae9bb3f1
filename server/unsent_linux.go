package server

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unsent returns the number of written bytes that the other side of a connection has not
// acknowledged; 0 if unknown.
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
