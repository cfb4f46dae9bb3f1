package server

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/arithmetic/model/modeltest"
)

// pageWanted is the environment variable that enables tests in a browser.
const pageWanted = "LMSERVE_TEST_PAGE"

// shotsFolder is the environment variable with a folder for screenshots.
const shotsFolder = "LMSERVE_TEST_SHOTS"

// axeFile is an accessibility checker; `make page` installs it.
const axeFile = "page/node_modules/axe-core/axe.min.js"

const browserWait = 60 * time.Second

type tab struct {
	*realRig
	ctx context.Context
}

// newTab opens the page of a server with a small model. It skips the test if browser tests are
// disabled or there is no browser. A message in the console, such as a policy violation, fails the
// test.
func newTab(t *testing.T) *tab {
	t.Helper()
	return newTabOf(t, Options{})
}

func newTabOf(t *testing.T, o Options) *tab {
	t.Helper()
	path := wantedBrowser(t)
	return newTabOn(newRealRig(t, withCounts(t), o), path)
}

func newTabOfWords(t *testing.T) *tab {
	t.Helper()
	path := wantedBrowser(t)
	m, err := modeltest.SmallOfWords()
	require.NoError(t, err)
	return newTabOn(newRealRigOf(t, m, withCounts(t), Options{}), path)
}

func wantedBrowser(t *testing.T) string {
	t.Helper()
	if os.Getenv(pageWanted) == "" {
		t.Skip("make test-page runs it: minutes in a browser")
	}
	return findChromium(t).path
}

func newTabOn(g *realRig, path string) *tab {
	t := g.t
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
		chromedp.NoSandbox, chromedp.Flag("disable-gpu", true))
	ctx, endBrowser := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, endTab := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		endTab()
		endBrowser()
	})
	b := &tab{g, ctx}
	require.NoError(t, chromedp.Listen(ctx, b.heard))
	b.run(command(cdplog.Enable, cdp.Empty{}), command(network.Enable, network.EnableParams{}))
	b.look(1280, 800, false)
	b.open("")
	return b
}

// heard fails the test if the browser reports an error, or the page requests another site. A
// request that the server refuses is not an error of the page.
func (b *tab) heard(event any) {
	switch e := event.(type) {
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError && e.Entry.Source != cdplog.EntrySourceNetwork {
			b.t.Errorf("the browser says: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		thrown := ""
		if e.ExceptionDetails.Exception != nil {
			thrown = e.ExceptionDetails.Exception.Description
		}
		b.t.Errorf("the page fails: %s %s", e.ExceptionDetails.Text, thrown)
	case *network.EventRequestWillBeSent:
		u := e.Request.URL
		if !strings.HasPrefix(u, b.url) && !strings.HasPrefix(u, "data:") && u != "about:blank" {
			b.t.Errorf("the page asks %s", u)
		}
	}
}

type step = chromedp.Action[chromedp.Void]

func (b *tab) run(steps ...step) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserWait)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, steps...))
}

// command returns a step that sends a command of the Chrome DevTools protocol.
func command[P, R any](c cdp.Command[P, R], params P) step {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// value evaluates a JavaScript expression. If the result is a promise, value waits for the promise.
func value[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserWait)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, expression)
	return v
}

// open navigates to a place of the page, such as "#/read".
func (b *tab) open(hash string) {
	b.t.Helper()
	b.run(chromedp.Navigate(b.url+"/"+hash), chromedp.WaitVisible("main"))
}

// look sets the window's size and color scheme.
func (b *tab) look(width, height int64, dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.run(
		chromedp.EmulateViewport(width, height),
		command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		}),
	)
}

func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		b.run(chromedp.KeyEvent(key))
	}
}

func (b *tab) until(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, browserWait)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Poll[bool](
		expression, chromedp.WithPollingInterval(50*time.Millisecond)))
	if err != nil {
		b.t.Fatalf("%v: it did not become true: %s\n%s",
			err, expression, value[string](b, `document.body.innerText`))
	}
}

// click clicks the first button, link or summary whose label begins with the given text.
func (b *tab) click(text string) {
	b.t.Helper()
	quoted, err := json.Marshal(text)
	require.NoError(b.t, err)
	find := fmt.Sprintf(`[...document.querySelectorAll("button, a, summary")]
		.find((e) => e.innerText.trim().startsWith(%s) && !e.disabled)`, quoted)
	b.until(find + ` !== undefined`)
	value[any](b, find+`.click(), true`)
}

func (b *tab) shoot(name string) {
	b.t.Helper()
	folder := os.Getenv(shotsFolder)
	if folder == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(b.t, err)
	require.NoError(b.t, os.MkdirAll(folder, 0o755))
	require.NoError(b.t, os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644))
}

// checkLooks checks the page in light and dark mode, at the sizes of a phone, a desktop and a wide
// screen. The page must not scroll horizontally, and axe must find no serious fault.
func (b *tab) checkLooks(name string) {
	b.t.Helper()
	for _, dark := range []bool{false, true} {
		for _, size := range [][2]int64{{360, 740}, {1280, 800}, {3840, 2160}} {
			b.look(size[0], size[1], dark)
			time.Sleep(200 * time.Millisecond) // time for the browser to redo the layout
			look := fmt.Sprintf("%s-%d-%s", name, size[0], map[bool]string{true: "dark",
				false: "light"}[dark])
			b.shoot(look)
			require.LessOrEqual(b.t, value[int](b, `document.documentElement.scrollWidth`),
				int(size[0]), look)
			if size[0] == 1280 {
				b.checkAccess(look)
			}
		}
	}
	b.look(1280, 800, false)
}

func (b *tab) checkAccess(name string) {
	b.t.Helper()
	axe, err := os.ReadFile(axeFile)
	if err != nil {
		b.t.Logf("accessibility not checked: %v (make page installs axe)", err)
		return
	}
	value[bool](b, string(axe)+";true")
	found := value[[]struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML, FailureSummary string }
	}](b, `axe.run().then((r) => r.violations)`)
	for _, v := range found {
		if v.Impact == "serious" || v.Impact == "critical" {
			b.t.Errorf("%s: %s: %s: %v", name, v.ID, v.Help, v.Nodes)
		}
	}
}
