package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	addressPattern = regexp.MustCompile(`\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b`)
	digitsPattern  = regexp.MustCompile(`\d+`)
	stampPattern   = regexp.MustCompile(
		`^.{0,60}?\d\d:\d\d:\d\d([.,]\d+)?( ?[+-]\d\d:?\d\d|Z)?|^1\d{9}(\d{3}|\.\d+)?`)
	numberPattern = regexp.MustCompile(`\b\d{1,5}(\.\d+)?`)
	statusPattern = regexp.MustCompile(`\b\d{2,3}\b`)
	wordPattern   = regexp.MustCompile(`\b[A-Za-z]{2,8}\b`)
	fieldPattern  = regexp.MustCompile(`([A-Za-z_][\w.-]*)("?[=:] ?)("[^"]*"|[^\s",;&{}()\[\]]+)`)
)

// stampOf returns the beginning of a line up to the end of its time stamp.
func stampOf(l string) string { return stampPattern.FindString(l) }

// slot is a field of many log lines. It is recognized by the text before its value.
type slot struct {
	pattern *regexp.Regexp
	strange string
}

func slotBehind(before, values, strange string) *slot {
	behind := `(?:[^\w.:/-]|$)`
	return &slot{regexp.MustCompile(regexp.QuoteMeta(before) + `(` + values + `)` + behind),
		strange}
}

func (n *slot) matches(l string) bool { return n.pattern.MatchString(l) }

func (n *slot) set(l, v string) string {
	if at := n.pattern.FindStringSubmatchIndex(l); at != nil {
		return l[:at[2]] + v + l[at[3]:]
	}
	return l
}

// times multiplies the slot's number in line l by x, and keeps the number of decimals.
func (n *slot) times(l string, x float64) string {
	at := n.pattern.FindStringSubmatchIndex(l)
	if at == nil {
		return l
	}
	text := l[at[2]:at[3]]
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return l
	}
	_, decimals, _ := strings.Cut(text, ".")
	return l[:at[2]] + strconv.FormatFloat(x*v, 'f', len(decimals), 64) + l[at[3]:]
}

// valuesOf returns the texts in a log's lines that match the pattern, grouped by the five bytes
// before each text. Time stamps are skipped.
func valuesOf(log []string, pattern *regexp.Regexp) map[string][]string {
	const bytesBefore, numbersMost = 5, 40
	all := map[string][]string{}
	for _, l := range log {
		head := len(stampOf(l))
		for _, at := range pattern.FindAllStringIndex(l[head:], numbersMost) {
			from, to := head+at[0], head+at[1]
			if from < bytesBefore || to < len(l) && strings.ContainsRune("0123456789.:/-",
				rune(l[to])) {
				continue
			}
			before := l[from-bytesBefore : from]
			if !digitsPattern.MatchString(before[2:]) {
				all[before] = append(all[before], l[from:to])
			}
		}
	}
	return all
}

// longest returns the key of the longest list of values for which the function `fit` returns true,
// or "" if there is no such list.
func longest(of map[string][]string, fit func([]string) bool) (key string) {
	for _, k := range slices.Sorted(maps.Keys(of)) {
		if len(of[k]) > len(of[key]) && fit(of[k]) {
			key = k
		}
	}
	return key
}

func distinct(values []string) int {
	return len(slices.Compact(slices.Sorted(slices.Values(values))))
}

// valueField returns a field of the log that has few different values, such as a status or a level,
// or nil.
func valueField(log []string) *slot {
	few := func(values []string) bool {
		return len(values) > len(log)/20 && 2 <= distinct(values) && distinct(values) <= 12 &&
			!slices.ContainsFunc(values, func(v string) bool { return len(v) < 2 || len(v) > 8 })
	}
	if key := longest(valuesOf(log, statusPattern), few); key != "" {
		return slotBehind(key, `\d{2,3}`, "597")
	}
	if key := longest(valuesOf(log, wordPattern), few); key != "" {
		return slotBehind(key, `[A-Za-z]{2,8}`, "REFUSED")
	}
	return nil
}

// numberField returns a numeric field of the log that has many different values and no trend, or
// nil.
func numberField(log []string) *slot {
	const wide, high, grows = 20, 3, 1.5
	key := longest(valuesOf(log, numberPattern), func(values []string) bool {
		if len(values) < 150 || len(values) < len(log)/30 || distinct(values) < 8 {
			return false
		}
		numbers := make([]float64, len(values))
		halves := [2]float64{}
		for i, v := range values {
			numbers[i], _ = strconv.ParseFloat(v, 64)
			halves[2*i/len(values)] += numbers[i]
		}
		slices.Sort(numbers)
		n := len(numbers)
		return numbers[0] > 0 && numbers[99*n/100] <= wide*numbers[n/2] &&
			numbers[n-1] <= high*numbers[99*n/100] &&
			halves[1] <= grows*halves[0] && halves[0] <= grows*halves[1]
	})
	if key == "" {
		return nil
	}
	return slotBehind(key, `\d{1,5}(?:\.\d+)?`, "")
}

// rareLine returns a line of the log whose template occurs at most three times. The template is the
// line with masked numbers.
func rareLine(log []string) (rare string) {
	count := map[string]int{}
	masked := func(l string) string { return digitsPattern.ReplaceAllString(l, "0") }
	for _, l := range log {
		count[masked(l)]++
	}
	for _, l := range log {
		if count[masked(l)] <= 3 && len(l) > 30 && len(l) < 600 {
			rare = l
		}
	}
	return rare
}

// fieldNames returns the names of the fields that occur in at least 90 % of the lines, in the order
// of the last line. The result `json` is true if the last line is a JSON object.
func fieldNames(log []string) (names []string, json bool) {
	count := map[string]int{}
	for _, l := range log {
		for _, m := range fieldPattern.FindAllStringSubmatch(l[len(stampOf(l)):], -1) {
			count[m[1]]++
		}
	}
	last := log[len(log)-1]
	for _, m := range fieldPattern.FindAllStringSubmatch(last[len(stampOf(last)):], -1) {
		if n := count[m[1]]; 10*n >= 9*len(log) && n <= len(log) {
			names = append(names, m[1])
		}
	}
	return names, strings.HasPrefix(last, "{")
}

// fieldAt returns the bounds of the field `name` in line l, and the beginning of its value. All are
// 0 if the line lacks the field.
func fieldAt(l, name string) (from, value, to int) {
	for _, at := range fieldPattern.FindAllStringSubmatchIndex(l, -1) {
		if l[at[2]:at[3]] == name {
			return at[0], at[6], at[7]
		}
	}
	return 0, 0, 0
}

func emptied(l, name string) string {
	from, value, to := fieldAt(l, name)
	if from == to {
		return l
	}
	return l[:value] + `""` + l[to:]
}

func without(l, name string) string {
	from, _, to := fieldAt(l, name)
	if from == to {
		return l
	}
	if from > 0 && l[from-1] == '"' {
		from--
	}
	for from > 0 && strings.ContainsRune(", ", rune(l[from-1])) {
		from--
	}
	return l[:from] + l[to:]
}

func with(l, name string, value int, json bool) string {
	if end := strings.LastIndexByte(l, '}'); json && end >= 0 {
		return l[:end] + fmt.Sprintf(`,"%s":%d`, name, value) + l[end:]
	}
	return l + fmt.Sprintf(" %s=%d", name, value)
}
