// Package folder keeps sessions in plain files, one folder for each session.
//
//	lock                      locked by the process that writes to the data folder
//	version                   the version of the format
//	epoch                     a number greater than all epochs given out so far
//	index                     written by Close, so that opening need not read every session
//	sessions/<id>/
//	    head                  the session's description; always replaced as a whole
//	    claim.<epoch>.<end>   empty: its name has the last claim, and the log's end at that time
//	    log.<offset>          a segment of the log: frames from an offset on
//	    state.<offset>        a snapshot
//	making/<random>/          a session whose creation is not complete
//	removed/<random>/         a deleted session, until its files are overwritten
//	backup/<random>/<id>/     hard links to the files of a backup under way
//
// Offsets and epochs in names have 16 hexadecimal digits. The disk usage of a session is the sum
// of the lengths of its files. A tar archive of a session's files is an export.
//
// The log may end with a torn frame: a power cut during a write leaves an incomplete frame. Bytes
// missing before the log's end at the last claim are damage.
//
// Closed segments and snapshots never change. Forks and backups share them by hard links, which
// the file system counts. A segment with more than one link is closed: the next append begins a
// new segment. Sessions do not share files that change, so damage to such a file affects only one
// session.
//
// If the sync of a folder fails, the session is marked unsynced, and settle repeats the sync
// later. It does so before the session is reported to anyone, because a power cut could remove new
// files. It also does so before deleted files are overwritten, because a power cut could bring
// them back.
//
// A frame has the records of one Append call. An acknowledged frame is complete:
//
//	offset  8 bytes   of the first record; all numbers are little-endian
//	size    4         of the body
//	check   4         CRC-32C of offset and size
//	sum     4         CRC-32C of the body and the size after it
//	body    size      records, each after its length in 4 bytes
//	size    4         repeated, so that the last frame can be found from the end of the file
package folder
