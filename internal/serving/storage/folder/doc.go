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
// Offsets and epochs in names have 16 hexadecimal digits. If bytes are missing before the log's end
// at the last claim, that is damage. After that position, a torn frame at the log's end is normal
// after a power cut. Sessions do not share files that change, so damage to such a file affects only
// one session. A tar archive of a session's files is an export. The disk usage of a session is the
// sum of the lengths of its files. Immutable files, closed segments and snapshots, are shared with
// forks and backups by hard links, which the file system counts. A segment with more than one link
// is closed: the next append begins another.
//
// If the sync of a folder fails, the session is marked unsynced, and settle repeats the sync later.
// It does so before the session is reported to anyone. It also does so before files are overwritten
// that could reappear after a power cut.
//
// A frame is the bytes that one Append has written. A frame that was acknowledged is complete:
//
//	offset  8 bytes   of its first record, little-endian as all numbers
//	size    4         of the body
//	check   4         CRC-32C of the 12 bytes before
//	sum     4         CRC-32C of the body and the size after it
//	body    size      records, each after its length in 4 bytes
//	size    4         repeated, so that the last frame is found from the end
package folder
