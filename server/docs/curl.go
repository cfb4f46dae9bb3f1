package docs

import (
	"strconv"
	"strings"
)

// exportMark is the placeholder for the file of an exported session in an example.
const exportMark = "{export}"

// curl returns the curl command for the request of an example. data is the request's body, or nil
// without a body.
func curl(got example, data *example) string {
	method, path, _ := strings.Cut(got.Request, " ")
	var sent string
	if data != nil {
		sent = dataOf(*data)
	}
	line := "curl -s"
	if strings.HasPrefix(got.Value.Value, "event:") ||
		strings.HasPrefix(got.Value.Value, "data:") ||
		strings.HasPrefix(got.Value.Value, "{") {
		line += "N" // -N: the answer is shown as it arrives
	}
	if method != "GET" && (method != "POST" || sent == "") {
		line += " -X " + method
	}
	parts := []string{line + " " + quoted("localhost:8080"+path)}
	for i := 0; i < len(got.Headers.Content); i += 2 {
		name, value := got.Headers.Content[i].Value, got.Headers.Content[i+1].Value
		parts = append(parts, "-H "+quoted(name+": "+value))
	}
	if sent != "" {
		parts = append(parts, sent)
	}
	return strings.Join(parts, " \\\n  ")
}

func dataOf(e example) string {
	switch {
	case e.isText() && e.Value.Value == exportMark:
		return "--data-binary @session.tar"
	case e.isText():
		escaped := strconv.QuoteToASCII(e.Value.Value)
		escaped = strings.NewReplacer(`'`, `\'`, `\"`, `"`).Replace(escaped[1 : len(escaped)-1])
		return "--data-binary $'" + escaped + "'"
	}
	return "-d " + quoted(e.line())
}

func quoted(s string) string {
	if strings.ContainsAny(s, " ?&*'\"{}[]$\\;") {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}
