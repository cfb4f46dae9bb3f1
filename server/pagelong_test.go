package server

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// watches makes the page's watches get the lists of events that an asynchronous generator yields.
func (b *tab) watches(generator string) {
	b.t.Helper()
	value[bool](b, fmt.Sprintf(`(() => {
		const {fetch} = window;
		const encoder = new TextEncoder();
		window.fetch = async (url, ...how) => {
			if (!/\/events\?/.test(url)) return fetch(url, ...how);
			const events = (async function* () { %s })();
			return new Response(new ReadableStream({async pull(stream) {
				const {value, done} = await events.next();
				if (done) return new Promise(() => {}); // the watch stays open
				stream.enqueue(encoder.encode(value.map((e) => JSON.stringify(e) + "\n").join("")));
			}}));
		};
		return true;
	})()`, generator))
}

// The page keeps only some of many updates and costs. Its numbers count all of them.
func TestPageCountsUpdatesOfLongWatch(t *testing.T) {
	const updates, rows, apart = 70_000, 20, 8
	b := newTab(t)
	path := b.create(withBaseline)
	b.watches(fmt.Sprintf(`
		let bits = 0;
		let events = [];
		for (let step = 0; step < %[1]d; step++) {
			const cost = step < %[1]d / 2 ? 16 : 32;
			const end = 16 * (step + 1);
			bits += cost;
			events.push({type: "chunk", step, offset: end - 16, bytes: 16, tokens: 16, bits: cost,
				totals: {bytes: end, tokens: end, bits}, text: "sixteen letters\n"});
			events.push({type: "update", step, offset: end, written: 1,
				branches: [{name: "emb", elements: 1, norm: 1, change: 1}]});
			if (events.length === 10000) yield events.splice(0);
		}`, updates))
	b.open(place("learn", path))
	b.until(`document.querySelector(".sums > :last-child")?.innerText.replaceAll("\u202f", "")
		.startsWith("` + strconv.Itoa(updates) + ` updates")`)
	b.click("As tables")
	cells := `[...document.querySelectorAll(".tables table:first-of-type tbody tr")].map((row) =>
		[row.children[1].textContent, row.lastElementChild.textContent].map(Number))`
	b.until(cells + fmt.Sprintf(`.reduce((sum, [, n]) => sum + n, 0) === %d`, updates))
	for i, row := range value[[][2]float64](b, cells) {
		require.InDelta(t, 1+i/(rows/2), row[0], 0, "bits per byte")
		require.InDelta(t, updates/rows, row[1], apart)
	}
	newest := `document.querySelector(".tables table:last-of-type caption").innerText`
	require.Contains(t, value[string](b, newest), "at byte 1\u202f120\u202f000")
}

// A watch keeps the end of a long text. Shown lines stay in place, and lines keep their ratings.
func TestPageForgetsBeginningOfLongWatch(t *testing.T) {
	const size, strange = 20 << 20, 15 << 20
	b := newTab(t)
	path := b.create(ofCounts)
	b.watches(fmt.Sprintf(`
		const bytes = 1 << 20;
		for (let offset = 0; offset < %d; offset += bytes) {
			let text = "";
			for (let i = offset; i < offset + bytes; i += 1024) {
				const words = (i === %d ? "ERROR " : "INFO ") + String(i).padStart(8, "0");
				text += words.padEnd(1023, ".") + "\n";
			}
			yield [{type: "chunk", step: 0, offset, bytes, tokens: bytes, bits: bytes, text,
				totals: {bytes: offset + bytes, tokens: offset + bytes, bits: offset + bytes}}];
			while (offset === 13 * bytes && !window.goes) {
				await new Promise((done) => setTimeout(done, 50));
			}
		}`, size, strange))
	b.open(place("read", path))
	line := `Math.min(...[...document.querySelectorAll(".map .row")].map((row) =>
		Number(/\d{4,}/.exec(row.textContent) ?? Infinity)))`
	b.until(line + ` > 13.9e6 && ` + line + ` < 2 ** 24`)
	b.click("Following")
	before := value[int](b, line)
	value[bool](b, `window.goes = true`)
	b.until(`document.querySelector(".totals").innerText.replaceAll("\u202f", "")
		.includes("` + strconv.Itoa(size) + ` bytes") && !document.querySelector(".map .wait")`)
	require.Equal(t, before, value[int](b, line))
	b.run(chromedp.Focus(".map"))
	note := `document.querySelector(".inspector .note")?.innerText.replaceAll("\u202f", "")`
	for key, at := range map[string]int{kb.Home: 5 << 20, kb.End: size - 1} {
		b.with(chromedp.ModifierCtrl, key)
		b.until(note + fmt.Sprintf(`?.startsWith("offset %d,")`, at))
	}
	b.click("Lines")
	strangest := `document.querySelector(".strangest .line")`
	b.until(strangest + `?.innerText.startsWith("ERROR ")`)
	value[bool](b, `(`+strangest+`.click(), true)`)
	b.until(note + fmt.Sprintf(`?.startsWith("offset %d,")`, strange))
}

// The server may trim text before a watch gets the text. The watch continues after that text.
func TestPageWatchesOnAfterTrimmedText(t *testing.T) {
	browser := wantedBrowser(t)
	o := withCounts(t)
	o.ReplayMax = 500
	b := newTabOn(newRealRig(t, o, Options{}), browser)
	path := b.create(`{"history":"tail"}`)
	b.score(path, numbered(1, 100))
	b.open(place("read", path))
	b.until(`document.querySelector(".totals .doing")?.textContent === "Watching…"`)
	b.click("Stop")
	b.score(path, numbered(2, 1000))
	b.score(path, numbered(3, 1000))
	offset := b.get(path).Offset
	from := b.do("GET", fmt.Sprintf("%s/text?offset=%d", path, offset), nil).
		Header.Get("Lmserve-Text-From")
	b.click("Watch")
	missed := `document.querySelector(".text > .note[role=status]")?.innerText
		.replaceAll("\u202f", "")`
	last, err := strconv.Atoi(from)
	require.NoError(t, err)
	require.Greater(t, last, 100)
	// The server may have trimmed more text since.
	to := `/^The page missed bytes 100 to (\d+):/.exec(` + missed + `)?.[1]`
	b.until(fmt.Sprintf(`Number(%s) >= %d`, to, last-1))
	b.score(path, "and more\n")
	b.until(`document.querySelector(".map").textContent.endsWith("and more↵")`)
	require.True(t, value[bool](b, `document.querySelector(".problem") === null`))
}

// Committed text is sent once after a reload, whether the server had got the text or not.
func TestPageSendsCommittedTextAfterReload(t *testing.T) {
	b := newTab(t)
	path := b.create(withBaseline)
	b.score(path, "start\n")
	want := "start\n"
	write := func(text, fetch string) {
		t.Helper()
		fixed := fmt.Sprintf(`document.querySelector(".sheet .fixed")?.textContent === %q`, want)
		b.open(place("write", path))
		b.until(fixed)
		value[bool](b, `(() => {
			const {fetch} = window;
			window.fetch = async (url, ...how) => {
				if (!/\/score\?/.test(url)) return fetch(url, ...how);
				`+fetch+`
				window.slowed = true;
				return new Promise(() => {});
			};
			return true;
		})()`)
		b.run(chromedp.Focus(".sheet textarea"))
		b.press(strings.Split(text, "")...)
		b.with(chromedp.ModifierCtrl, kb.Enter)
		b.until(`window.slowed`)
		want += text
		b.run(chromedp.Reload())
		b.until(fmt.Sprintf(`document.querySelector(".sheet .fixed")?.textContent === %q &&
			document.querySelector(".problem") === null &&
			!document.querySelector(".acts").innerText.includes("Learning")`, want))
		b.untilText(path, want)
	}
	write("one", ``)
	require.True(t, value[bool](b, `!JSON.stringify(sessionStorage).includes("unsent")`),
		"sent text is not kept")
	write("two", `await (await fetch(url, ...how)).text();`)
	// The request from before the reload may arrive after the page has read the session. The text
	// stays sent if the page then fails to read the session.
	late := cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: `{
		const {fetch} = window;
		let isFirst = true;
		window.fetch = async (url, ...how) => {
			if (isFirst && /\/score\?.*offset=/.test(url)) {
				isFirst = false;
				await (await fetch(url, ...how)).text();
			}
			if (!isFirst && !window.failed && /\/sessions\/[^/]+$/.test(url)) {
				window.failed = true;
				throw new TypeError("no network");
			}
			return fetch(url, ...how);
		};
		setInterval(() => window.failed && [...document.querySelectorAll("button")].find((e) =>
			e.innerText === "Try again")?.click(), 50);
	}`}
	b.run(command(cdppage.AddScriptToEvaluateOnNewDocument, late))
	write("three", ``)
	b.until(`window.failed`)
	time.Sleep(200 * time.Millisecond) // time for a second sending
	b.untilText(path, want)
}
