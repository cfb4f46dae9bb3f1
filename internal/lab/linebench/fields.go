package main

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// place is a field of a line: the bytes line[from:to].
type place struct {
	from, to int
	sort     int
	value    string
	format   string // the line with the field and all numbers masked
}

// sorts has a pattern for each sort of field that can be changed. The field is the first group of
// the pattern that matches.
var sorts = []*regexp.Regexp{
	regexp.MustCompile(`(?:^|[\s"'(=:])(/[\w./%+-]{2,})`),
	regexp.MustCompile(
		`(?:\buser(?:name)?"?[ =:]+"?|\bpassword for )([A-Za-z_][\w.-]*)|\((\w+)\) CMD`,
	),
	regexp.MustCompile(`\b(` + strings.Join(statuses, "|") + `)\b`),
	regexp.MustCompile(`(?:\b(?:status|state|code|exit)"?[ =:]+|HTTP/\d\.\d" )(\d+)\b`),
}

const (
	sortPath = iota
	sortUser
	sortWord
	sortNumber
)

// statuses are words for an outcome or a severity in log lines.
var statuses = []string{
	"ok", "OK", "failed", "Failed", "failure", "success", "Accepted", "opened", "closed", "Invalid",
	"denied", "forbidden", "notice", "info", "INFO", "warn", "warning", "WARN", "error", "ERROR",
	"synchronized", "started", "stopped", "installed", "unpacked", "configure", "install",
	"upgrade", "remove",
}

var number = regexp.MustCompile(`[0-9]+`)

func masked(text string) string { return number.ReplaceAllString(text, "0") }

func fields(text string) (found []place) {
	for sort, re := range sorts {
		for _, m := range re.FindAllStringSubmatchIndex(text, -1) {
			from, to := m[2], m[3]
			if from < 0 {
				from, to = m[4], m[5]
			}
			value := text[from:to]
			if sort == sortUser && slices.Contains([]string{"unknown", "name", "invalid"}, value) {
				continue
			}
			format := masked(text[:from]) + "\x00" + masked(text[to:])
			found = append(found, place{from, to, sort, value, fmt.Sprint(sort, format)})
		}
	}
	return found
}

var values = [...][]string{
	sortPath: {
		"/../../etc/passwd",
		"/var/tmp/.x/run",
		"/root/.ssh/authorized_keys",
		"/cgi-bin/.%2e/bin/sh",
		"/tmp/kworkerds",
		"/home/backup/.bash_history",
		"/wp-login.php",
		"/dev/shm/a.out",
	},
	sortUser: {
		"mallory",
		"svc_backup",
		"toor",
		"guest77",
		"www-sync",
		"ec2-user",
		"sysdaemon",
		"xmrig",
	},
	sortWord: {"emerg", "alert", "panic", "rejected", "hijacked", "fatal", "granted", "overridden"},
}

func other(f place, r *rand.Rand) string {
	if f.sort == sortNumber {
		for {
			if value := fmt.Sprint(2 + r.IntN(997)); value != f.value {
				return value
			}
		}
	}
	list := values[f.sort]
	return list[r.IntN(len(list))]
}
