package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/lmserve/lmserve/api/client"
)

const answersHelp = "feedback: \"f 12\" (incident #12 is a false alarm), \"m 12\" (incident " +
	"#12 matters), " +
	"\"u 12\" (remove the feedback), \"l\" (list the feedback)"

// feedback reads and executes the user's answers about incidents, one per line. feedback returns
// when the input ends or ctx is canceled.
func (a *watchAll) feedback(ctx context.Context, answers io.Reader) {
	a.w.Note(answersHelp)
	lines := bufio.NewScanner(answers)
	for lines.Scan() && ctx.Err() == nil {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		note, err := a.answer(ctx, strings.Fields(lines.Text()))
		if err != nil {
			note = err.Error()
		}
		a.w.Note(note)
	}
}

// answer executes a user's answer and describes the result. An answer without a number refers to
// the incident that was printed last.
func (a *watchAll) answer(ctx context.Context, words []string) (note string, err error) {
	verdicts := map[string]*client.Verdict{
		"f": new(client.VerdictFalseAlarm), "m": new(client.VerdictMatters), "u": nil, "l": nil,
	}
	verdict, known := verdicts[words[0]]
	if !known || len(words) > 2 {
		return "", fmt.Errorf("found %q, expected %s", strings.Join(words, " "), answersHelp)
	}
	number := int64(0)
	if len(words) == 2 {
		if number, err = strconv.ParseInt(strings.TrimPrefix(words[1], "#"), 10, 64); err != nil {
			return "", fmt.Errorf("found %q, expected the number of an incident", words[1])
		}
	}
	source, number, ok := a.printed(number)
	if !ok {
		return "", fmt.Errorf("no incident with this number has been printed")
	}
	session := a.sessionOf(source)
	if words[0] == "l" {
		list, err := a.w.Client.ListIncidents(ctx, session)
		if err != nil {
			return "", err
		}
		return answersOf(list), nil
	}
	list, err := a.w.Client.GiveFeedback(ctx, session, number, verdict)
	if err != nil {
		return "", err
	}
	a.report.judged(source, number, verdict)
	return answersOf(list), nil
}

func answersOf(list client.IncidentList) string {
	if len(list.Feedback) == 0 {
		return "no answers"
	}
	text := "answers:"
	for _, f := range list.Feedback {
		verdict := strings.ReplaceAll(string(f.Verdict), "_", " ")
		text += fmt.Sprintf("\n  #%d %s: %s", f.Incident, verdict, f.Sample)
	}
	return text
}

// printed returns the source and the number of the last printed incident with the given number. The
// number 0 matches every incident.
func (a *watchAll) printed(number int64) (string, int64, bool) {
	a.report.mu.Lock()
	defer a.report.mu.Unlock()
	i, ok := a.report.incidents.last(number)
	return i.source, i.Number, ok
}

func (a *watchAll) sessionOf(source string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sessions[source]
}
