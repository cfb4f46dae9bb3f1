package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api/client"
)

func completed(t *testing.T, args ...string) (done client.Completion) {
	out := must(t, "", append([]string{"complete", "--json"}, args...)...)
	require.NoError(t, json.Unmarshal([]byte(out), &done))
	return done
}

func TestCompletePrintsJSONLinesOrText(t *testing.T) {
	file := randomModel(t)
	args := []string{"--model", file, "--static", "--prompt", "ab", "--max-tokens", "20", "--seed",
		"7"}
	done := completed(t, append(args, "--logprobs", "2")...)
	require.Equal(t, client.FinishLength, done.FinishReason)
	require.EqualValues(t, 7, done.Seed)
	require.EqualValues(t, 2, done.Usage.PromptTokens)
	require.Len(t, done.Logprobs, 20)
	require.Len(t, done.TopLogprobs, 20)
	text := done.TextBytes()
	for i, top := range done.TopLogprobs {
		require.Len(t, top, 2)
		require.GreaterOrEqual(t, top[0].Logprob, top[1].Logprob)
		require.GreaterOrEqual(t, top[0].Logprob, done.Logprobs[i])
		for _, other := range top {
			if byte(other.Token) == text[i] {
				require.Equal(t, done.Logprobs[i], other.Logprob)
			}
		}
	}
	plain := completed(t, args...)
	require.Nil(t, plain.Logprobs)
	require.Equal(t, text, plain.TextBytes())
	require.Equal(t, "ab"+done.Text+"\n",
		must(t, "", append([]string{"complete"}, args...)...))
	lines := strings.Split(must(t, "", append([]string{"complete", "--logprobs", "0"}, args...)...),
		"\n")
	require.Len(t, lines, 22, "a heading, and a line for each token")
}

func TestCompleteTellsTheSeedThatItDrew(t *testing.T) {
	args := []string{"complete", "--model", randomModel(t), "--static", "--max-tokens", "30"}
	text, stderr, code := lmserve("", args...)
	require.Zero(t, code, stderr)
	require.Regexp(t, `^lmserve: the seed was \d+\n$`, stderr)
	seed := strings.TrimSpace(stderr[strings.LastIndexByte(stderr, ' '):])
	again, stderr, code := lmserve("", append(args, "--seed", seed)...)
	require.Zero(t, code)
	require.Empty(t, stderr)
	require.Equal(t, text, again)
}

func TestCompleteStops(t *testing.T) {
	args := []string{"--model", randomModel(t), "--static", "--max-tokens", "60", "--seed", "7"}
	whole := completed(t, args...)
	runes := []rune(whole.Text)
	stop := string(runes[len(runes)/2])
	if stop == "\uFFFD" {
		t.Skip("the character in the middle is none")
	}
	done := completed(t, append(args, "--stop", "nothing such", "--stop", stop)...)
	require.Equal(t, client.FinishStop, done.FinishReason)
	require.NotContains(t, done.Text, stop)
	require.True(t, strings.HasPrefix(whole.Text, done.Text))
}

func TestCompleteOverAServer(t *testing.T) {
	file := randomModel(t)
	text, log := beginning(t, 400)
	url, stop := serving(t, "--model", file)
	defer stop()
	same := []string{"--static", "--after", log, "--prompt", "x", "--seed", "3", "--max-tokens",
		"25"}
	near := completed(t, append(same, "--model", file)...)
	far := completed(t, append(same, "--server", url)...)
	require.Equal(t, near.TextBytes(), far.TextBytes())
	require.EqualValues(t, len(text), far.Offset)
	_, list := send(t, "GET", url+"/v1/sessions", "", "")
	require.Empty(t, list["sessions"], "the session was deleted")

	mine := []string{"--server", url, "--session", "mine", "--prompt", "x", "--max-tokens", "5"}
	require.EqualValues(t, len(text), completed(t, append(mine, "--method", "static", "--after",
		log)...).Offset)
	require.EqualValues(t, len(text), completed(t, mine...).Offset, "the files are not read again")
	done := completed(t, append(mine, "--commit", "all")...)
	end := len(text) + len("x") + len(done.TextBytes())
	require.EqualValues(t, end, done.Offset)
	_, session := send(t, "GET", url+"/v1/sessions/mine", "", "")
	require.EqualValues(t, end, session["offset"])
	require.EqualValues(t, end, completed(t, "--server", url, "--session",
		session["id"].(string)).Offset)

	for want, args := range map[string][]string{
		"--threads has no effect with --server": {"--threads", "1", "--server", url},
		"--model is":                            {"--model", file, "--server", url},
		"--server: client: base URL":            {"--server", "nowhere"},
		"--logprobs is 21, expected 0 to 20":    {"--server", url, "--logprobs", "21"},
		"--top-p is 0, expected above 0 to 1":   {"--server", url, "--top-p", "0"},
		"--lambda is 1, expected":               {"--server", url, "--lambda", "1"},
		"--seed is 9007199254740992, expected":  {"--server", url, "--seed", "9007199254740992"},
		`--commit is "some", expected`:          {"--server", url, "--commit", "some"},
		"--static and --method are both given": {"--server", url, "--static", "--method",
			"cache"},
		"--max-tokens is 65537, expected 1 to":    {"--server", url, "--max-tokens", "65537"},
		"--temperature is 10.5, expected 0 to 10": {"--server", url, "--temperature", "10.5"},
	} {
		_, stderr, code := lmserve("", append([]string{"complete"}, args...)...)
		require.Equal(t, exitUsage, code, stderr)
		require.Contains(t, stderr, want)
	}
}

type endingWriter struct {
	bytes.Buffer
	end func(error)
}

func (w *endingWriter) Write(text []byte) (int, error) {
	w.end(signalError{syscall.SIGINT})
	return w.Buffer.Write(text)
}

func TestCompleteInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	out, errs := &endingWriter{end: cancel}, new(bytes.Buffer)
	args := []string{
		"complete", "--model", randomModel(t), "--static", "--logprobs", "0", "--max-tokens",
		"65536",
		"--seed", "4",
	}
	require.Equal(t, 128+int(syscall.SIGINT), run(ctx, args, nil, out, errs))
	require.Contains(t, errs.String(), "ended by a signal (interrupt)")
	require.Equal(t, "token", out.String()[:5])
}
