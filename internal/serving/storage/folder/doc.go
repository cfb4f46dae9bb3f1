// Package folder keeps sessions in plain files: a folder a session.
//
//	lock                      held by the process that writes
//	version                   of the format
//	epoch                     epochs below this one may have been given out
//	index                     written at a clean end, so that opening need not read every session
//	sessions/<id>/
//	    head                  what the session is; replaced whole
//	    claim.<epoch>.<end>   empty: the name says who claimed the session last, and where the log ended
//	    log.<offset>          the log from an offset on, a segment of frames
//	    state.<offset>        a snapshot
//	making/<random>/          a session that is not complete
//	removed/<random>/         a session that is deleted, until its files are overwritten
//	backup/<random>/<id>/     links to the files of a backup under way
//
// Offsets and epochs in names have 16 hexadecimal digits. What a log has lost before the end of its
// last claim is damage; behind it a torn frame at the end is what a cut of power leaves. A
// session's files are its own: damage to one is damage to one session, a tar of them is an export,
// and what a session takes on the disk is the sum of their lengths. Files that never change again,
// closed segments and snapshots, are shared with forks and backups by hard links; the file system
// counts them. A segment with more than one link is closed: the next append begins another.
//
// A call whose sync of a folder fails leaves the session unsynced: settle repeats the sync before
// anything is told of the session, or overwritten of what a cut of power may bring back.
//
// A frame is what one Append has written. It is there whole, or was never acknowledged:
//
//	offset  8 bytes   of its first record, little-endian as all numbers
//	size    4         of the body
//	check   4         CRC-32C of the 12 bytes before
//	sum     4         CRC-32C of the body and the size behind it
//	body    size      records, each behind its length in 4 bytes
//	size    4         once more, so that the last frame is found from the end
package folder
