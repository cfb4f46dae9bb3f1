package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
)

const lostLine = "09:05:00 ERROR db-2 lost\n"

func TestPageShowsIncidentsAsTheyHappen(t *testing.T) {
	b := newTab(t)
	path := b.create(ofCounts)
	feed := func(text string) {
		t.Helper()
		require.Equal(t, http.StatusOK, b.text(path+"/score?unit=line", text).StatusCode)
	}
	feed(requestLog(0, 400))
	b.open(place("incidents", path))
	b.until(`document.querySelector(".state").innerText.startsWith("live")`)
	b.until(`document.querySelector(".quiet-now") !== null`)
	require.Zero(t, value[int](b, `document.querySelectorAll(".incident").length`))

	feed(lostLine)
	b.until(`document.querySelector(".incident.open mark")?.innerText === "ERROR"`)
	shown := func(part string) string {
		return value[string](b, `document.querySelector(".incident `+part+`").innerText`)
	}
	require.Contains(t, shown(".why"), "ERROR")
	require.Regexp(t, `^1 in \d`, shown(".rank"))
	b.until(`document.title.startsWith("(1)")`)
	b.press("f") // No incident is selected yet, so the key has no effect.
	b.press("j", kb.Enter)
	b.until(`document.querySelector(".opened .samples-of")?.innerText === ` +
		fmt.Sprintf("%q", strings.TrimSpace(lostLine)))
	b.checkLooks("incident")

	verdicts := func() []api.Feedback {
		return decode[api.IncidentList](t, b.do("GET", path+"/incidents", nil),
			http.StatusOK).Feedback
	}
	untilVerdicts := func(count int) {
		t.Helper()
		require.Eventually(t, func() bool { return len(verdicts()) == count },
			browserWait, 10*time.Millisecond)
	}
	folded := `document.querySelector(".folded summary span")?.innerText === "1" &&
		document.querySelector(".incident") === null`
	require.Empty(t, verdicts())
	b.press("f")
	b.until(folded)
	untilVerdicts(1)
	require.Equal(t, api.VerdictFalseAlarm, verdicts()[0].Verdict)
	b.run(chromedp.Reload())
	b.until(folded)
	b.click("False alarms")
	b.until(`document.querySelector(".folded .incident") !== null`)
	b.checkLooks("incident-folded")
	b.press("j", "u")
	b.until(`document.querySelector(".folded") === null &&
		document.querySelector(".incident.chosen") !== null`)
	untilVerdicts(0)
	b.press("m")
	b.until(`document.querySelector(".incident em.matters") !== null`)
	untilVerdicts(1)

	b.press("?")
	b.until(`document.querySelector("dialog[open]") !== null`)
	b.checkLooks("incident-keys")
	b.press(kb.Escape)
	b.until(`document.querySelector("dialog[open]") === null`)
	b.press("r")
	at := len(requestLog(0, 400))
	b.until(fmt.Sprintf(`location.hash.startsWith("#/read/") && location.hash.endsWith("/%d")`, at))
	b.until(`document.querySelector(".map .caret") !== null`)
	b.until(`document.querySelector(".rating strong")?.innerText.startsWith("1 in ")`)
}

func TestPageHidesIncidentsBelowTheThreshold(t *testing.T) {
	b := newTab(t)
	path := b.create(ofCounts)
	b.text(path+"/score?unit=line", requestLog(0, 400)+lostLine)
	list := decode[api.IncidentList](t, b.do("GET", path+"/incidents", nil), http.StatusOK)
	require.Len(t, list.Incidents, 1)
	b.open(place("incidents", path))
	b.until(`document.querySelector(".incident, footer span:not(.keys-line)") !== null`)
	for _, threshold := range []int{100, 1000, 10000} {
		value[bool](b, fmt.Sprintf(`(() => {
			const choice = document.querySelector(".head label select");
			choice.value = "%d";
			return choice.dispatchEvent(new Event("change", {bubbles: true}));
		})()`, threshold))
		shown := 0
		if list.Incidents[0].P <= 1/float64(threshold) {
			shown = 1
		}
		b.until(fmt.Sprintf(`document.querySelectorAll(".incident").length === %d`, shown))
	}
	b.run(chromedp.Reload())
	b.until(`document.querySelector(".head label select")?.value === "10000"`)
}

func TestPageEndsALogOnItsIncident(t *testing.T) {
	b := newTab(t)
	b.until(`document.querySelector(".samples") !== null`)
	b.click("A server’s log")
	strange := `document.querySelector(".rating")?.innerText.includes("ERROR")`
	b.until(strange + ` && document.querySelector(".map .caret") !== null`)
	hottest := `[...document.querySelectorAll(".map span")].map((e) =>
		[Number(/heat(\d)/.exec(e.className)?.[1] ?? 0), e.innerText])
		.sort((a, b) => b[0] - a[0])[0][1]`
	b.until(`"ERROR".includes(` + hottest + `)`)
	b.checkLooks("log")
	b.press("n")
	colors := `[...document.querySelectorAll(".map span")].map((e) => e.className).join()`
	at := `document.querySelector(".map").scrollTop = 0`
	b.click("Adaptive")
	value[float64](b, at)
	b.until(`document.querySelector(".map [class*=heat6]") !== null`)
	before := value[string](b, colors)
	b.run(chromedp.Reload())
	b.until(`document.querySelector(".toolbar") !== null`)
	b.click("Adaptive")
	b.until(`document.querySelector(".coarse") === null`)
	b.click("Following")
	value[float64](b, at)
	b.until(colors + ` === ` + fmt.Sprintf("%q", before))
}

func TestPageGoesToTheNextStrangestLine(t *testing.T) {
	b := newTab(t)
	warn, fault := requestLog(0, 200), "09:05:00 WARN slow 900\n"+requestLog(200, 400)
	b.read(warn + fault + lostLine + requestLog(400, 440))
	b.until(`document.querySelector(".map .caret") !== null`)
	b.run(chromedp.Focus(".map"),
		chromedp.KeyEvent(kb.Home, chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	note := `document.querySelector(".inspector .note").innerText`
	b.until(note + `.startsWith("offset 0,")`)
	type found struct{ Offset, Rank int }
	next := func(key string) found {
		t.Helper()
		before := value[string](b, note)
		b.press(key)
		b.until(note + ` !== ` + fmt.Sprintf("%q", before))
		return value[found](b, `(() => {
			const number = (text) => Number(text.replaceAll(/\D/g, ""));
			return {
				Offset: number(`+note+`.split(",")[0]),
				Rank: number(
					document.querySelector(".rating strong").innerText.slice("1 in".length)),
			};
		})()`)
	}
	first, second := next("n"), next("n")
	require.GreaterOrEqual(t, first.Rank, second.Rank)
	require.Equal(t, first, next("p"))
	lines := []int{first.Offset, second.Offset}
	slices.Sort(lines)
	require.Less(t, lines[0]-len(warn), len("09:05:00 WARN slow 900"))
	require.Less(t, lines[1]-len(warn+fault), len(lostLine))
	require.Positive(t, lines[0]-len(warn))
	require.Positive(t, lines[1]-len(warn+fault))
}

// The session was fed without unit=line, so it has no incidents. The page feeds the session's text,
// as lines, to a new session.
func TestPageFindsIncidentsInAText(t *testing.T) {
	b := newTab(t)
	path := b.create(`{"labels":{"title":"fed"}}`)
	b.text(path+"/score", requestLog(0, 100)+lostLine)
	b.open(place("incidents", path))
	b.click("Find incidents")
	b.until(`document.querySelector("select")?.selectedOptions[0].innerText === "fed, its lines"`)
	value[bool](b, `(() => {
		const choice = document.querySelector(".head label select");
		choice.value = "100";
		return choice.dispatchEvent(new Event("change", {bubbles: true}));
	})()`)
	b.until(`document.querySelector(".incident mark")?.innerText === "ERROR"`)
}
