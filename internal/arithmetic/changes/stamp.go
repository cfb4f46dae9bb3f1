package changes

import "bytes"

const (
	stampBytes = 400 // a time stamp is searched only in the first 400 bytes of a line
	dateBytes  = 24
	dayMillis  = 24 * 60 * 60 * 1000
)

type stamp struct {
	millis   int64 // milliseconds since midnight
	from, to int   // bounds of the stamp in the line; both 0 if the line has none
}

// stampOf returns the first time stamp of a line. A stamp is hh:mm:ss with its fraction, its zone
// and the date before it. At the beginning of a line, it can also be a Unix time of ten digits
// (seconds) or 13 digits (milliseconds).
func stampOf(line []byte) stamp {
	head := line[:min(len(line), stampBytes)]
	for i := 2; ; i++ {
		next := -1
		if i < len(head) {
			next = bytes.IndexByte(head[i:], ':')
		}
		if next < 0 {
			return epoch(head)
		}
		i += next
		if i+6 > len(head) {
			return epoch(head)
		}
		if i > 2 && isDigit(head[i-3]) || head[i+3] != ':' {
			continue
		}
		hour, minute, second := twoDigits(head[i-2:]), twoDigits(head[i+1:]), twoDigits(head[i+4:])
		if min(hour, minute, second) < 0 || hour > 23 || minute > 59 || second > 60 {
			continue
		}
		millis, to := fraction(line, i+6)
		millis += ((hour*60+minute)*60 + second) * 1000
		return stamp{millis: millis % dayMillis, from: dateBefore(line, i-2),
			to: zoneAfter(line, to)}
	}
}

// twoDigits returns the number that the first two digits of b form, or -1 if b begins with anything
// else.
func twoDigits(b []byte) int64 {
	if !isDigit(b[0]) || !isDigit(b[1]) {
		return -1
	}
	return int64(b[0]-'0')*10 + int64(b[1]-'0')
}

// fraction returns the milliseconds of a fraction of a second, and the offset of its end. The
// fraction begins at i with a point or a comma.
func fraction(line []byte, i int) (millis int64, to int) {
	if i+1 >= len(line) || line[i] != '.' && line[i] != ',' || !isDigit(line[i+1]) {
		return 0, i
	}
	unit := int64(100)
	for i++; i < len(line) && isDigit(line[i]); i++ {
		millis += int64(line[i]-'0') * unit
		unit /= 10
	}
	return millis, i
}

func dateBefore(line []byte, i int) int {
	least := max(0, i-dateBytes+2)
	for ; i > least; i-- {
		switch c := line[i-1]; {
		case isLetter(c), isDigit(c), c == '-', c == '/', c == ' ', c == ':':
		default:
			return i
		}
	}
	return i
}

// zoneAfter returns the end of the time zone after a time at i: Z, +0100 or -01:00, with or
// without a space.
func zoneAfter(line []byte, i int) int {
	rest := line[i:]
	if len(rest) > 0 && rest[0] == 'Z' {
		return i + 1
	}
	space := 0
	if len(rest) > 0 && rest[0] == ' ' {
		space = 1
	}
	rest = rest[space:]
	if len(rest) < 5 || rest[0] != '+' && rest[0] != '-' || twoDigits(rest[1:]) < 0 {
		return i
	}
	switch {
	case twoDigits(rest[3:]) >= 0:
		return i + space + 5
	case rest[3] == ':' && len(rest) >= 6 && twoDigits(rest[4:]) >= 0:
		return i + space + 6
	}
	return i
}

func epoch(line []byte) stamp {
	if len(line) < 10 || line[0] != '1' {
		return stamp{}
	}
	to, number := 0, int64(0)
	for ; to < len(line) && to < 14 && isDigit(line[to]); to++ {
		number = number*10 + int64(line[to]-'0')
	}
	switch to {
	case 10:
		number *= 1000
		millis, end := fraction(line, to)
		return stamp{millis: (number + millis) % dayMillis, to: end}
	case 13:
		return stamp{millis: number % dayMillis, to: to}
	}
	return stamp{}
}
