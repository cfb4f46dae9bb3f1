// Package folder keeps sessions in plain files, one folder for each session.
//
//	lock                      held by the process that writes
//	version                   of the format
//	epoch                     epochs below this one may have been given out
//	index                     written at a clean end, so that opening need not read every session
//	sessions/<id>/
//	    head                  the session's description; replaced as a whole
//	    claim.<epoch>.<end>   empty: its name has the last claim, and the log's end at that time
//	    log.<offset>          the log from an offset on, a segment of frames
//	    state.<offset>        a snapshot
//	making/<random>/          a session that is not complete
//	removed/<random>/         a session that is deleted, until its files are overwritten
//	backup/<random>/<id>/     links to the files of a backup under way
//
// Offsets and epochs in names have 16 hexadecimal digits. A loss before the log's end at the last
// claim is damage. After that, a torn frame at the end is normal after a power cut. Sessions do not
// share files that change, so damage to a file affects one session. A tar of the files is an
// export. The disk usage of a session is the sum of their lengths. Immutable files, closed segments
// and snapshots, are shared with forks and backups by hard links, which the file system counts. A
// segment with more than one link is closed: the next append begins another.
//
// If the sync of a folder fails, the session is marked unsynced. settle repeats the sync before the
// session is reported to anyone, and before files are overwritten that a power cut may bring back.
//
// A frame is what one Append has written. It is there as a whole, or was never acknowledged:
//
//	offset  8 bytes   of its first record, little-endian as all numbers
//	size    4         of the body
//	check   4         CRC-32C of the 12 bytes before
//	sum     4         CRC-32C of the body and the size behind it
//	body    size      records, each behind its length in 4 bytes
//	size    4         repeated, so that the last frame is found from the end
package folder
