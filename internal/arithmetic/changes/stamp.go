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
	time     int   // beginning of the time of day, after the date
}

// TimeOfDay returns the bounds of the first time of day in a line, with its fraction and its zone
// but without its date. Both are 0 if the line has none.
func TimeOfDay(line []byte) (from, to int) {
	s := stampOf(line)
	return s.time, s.to
}

// stampOf returns the first time stamp of a line. A stamp is hh:mm:ss with its fraction, AM or PM,
// its zone and the date before it. With AM or PM, the hour may have one digit. At the beginning of
// a line, it can also be a Unix time of ten digits (seconds) or 13 digits (milliseconds).
func stampOf(line []byte) stamp {
	head := line[:min(len(line), stampBytes)]
	for i := 1; ; i++ {
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
		from, hour := hourBefore(head, i)
		if from == i || head[i+3] != ':' {
			continue
		}
		minute, second := twoDigits(head[i+1:]), twoDigits(head[i+4:])
		if min(minute, second) < 0 || hour > 23 || minute > 59 || second > 60 {
			continue
		}
		millis, to := fraction(line, i+6)
		if at, half := halfAfter(line, to, hour); half > 0 {
			hour, to = hour%12+half-12, at
		} else if i-from == 1 {
			continue
		}
		millis += ((hour*60+minute)*60 + second) * 1000
		return stamp{millis: millis % dayMillis, from: dateBefore(line, from), time: from,
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

// hourBefore returns the hour that ends before the colon at i, and the offset of its first digit.
// Without one or two digits there, the offset is i.
func hourBefore(line []byte, i int) (from int, hour int64) {
	switch {
	case !isDigit(line[i-1]), i > 2 && isDigit(line[i-2]) && isDigit(line[i-3]):
		return i, 0
	case i > 1 && isDigit(line[i-2]):
		return i - 2, twoDigits(line[i-2:])
	}
	return i - 1, int64(line[i-1] - '0')
}

// halfAfter returns the end of AM or PM after a time that ends at i, with or without a space. The
// result half is the hour at which this half of the day ends: 12 or 24. Without AM or PM, it is 0.
func halfAfter(line []byte, i int, hour int64) (to int, half int64) {
	to = i
	if to < len(line) && line[to] == ' ' {
		to++
	}
	if hour < 1 || hour > 12 || to+2 > len(line) || line[to+1]|0x20 != 'm' ||
		to+2 < len(line) && (isLetter(line[to+2]) || isDigit(line[to+2])) {
		return i, 0
	}
	switch to += 2; line[to-2] | 0x20 {
	case 'a':
		return to, 12
	case 'p':
		return to, 24
	}
	return i, 0
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
