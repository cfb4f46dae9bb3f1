package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api/client"
)

// This test makes the pictures of the documentation, from a running server and its page in a
// headless Chromium. `make pictures` names the folder.
func TestPicturesOfThePage(t *testing.T) {
	folder := os.Getenv("LMSERVE_PICTURES")
	if folder == "" {
		t.Skip("make pictures makes them")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	s, err := start(ctx, filepath.Join("..", "..", "..", "bin", "lmserve"))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.stop()) }()
	log, err := filepath.Abs("incident.log")
	require.NoError(t, err)
	tab := newTab(t)
	do := func(steps ...step) { require.NoError(t, chromedp.Do(tab, steps...)) }
	do(chromedp.EmulateViewport(1280, 800), chromedp.Navigate(s.url+"/"),
		chromedp.SetUploadFiles(".composer input[type=file]", []string{log}))
	waitUntilRead(ctx, t, s.url)
	do(chromedp.Click(`//main//button[normalize-space()="Lines"]`),
		chromedp.Click(`//main//button[contains(., "ERROR")]`), chromedp.Focus(".map"),
		chromedp.Sleep(2*time.Second), picture(folder, "read.webp"))
	do(chromedp.Click(`//nav/a[normalize-space()="Learn"]`),
		chromedp.Sleep(2*time.Second), picture(folder, "learn.webp"))
}

// step is an action in the browser.
type step = chromedp.Action[chromedp.Void]

// newTab opens a tab of a headless Chromium.
func newTab(t *testing.T) context.Context {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox)
	browser, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	tab, stop := chromedp.NewContext(browser)
	t.Cleanup(stop)
	return tab
}

// waitUntilRead waits until the page has fed the log to its session.
func waitUntilRead(ctx context.Context, t *testing.T, url string) {
	c, err := client.New(url)
	require.NoError(t, err)
	for read := int64(0); read < int64(len(incident)); time.Sleep(time.Second) {
		require.NoError(t, ctx.Err())
		for session, err := range c.Sessions(ctx, "") {
			require.NoError(t, err)
			if session.Settings.Method != "counts" { // that session only rates lines
				read = session.Offset
			}
		}
	}
}

// picture writes a screenshot of the tab to a file.
func picture(folder, name string) step {
	return chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		quality := int64(80) // of 100
		shot, err := cdp.Call(ctx, tab, page.CaptureScreenshot, page.CaptureScreenshotParams{
			Format: page.CaptureScreenshotFormatWebp, Quality: &quality,
		})
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(folder, name), shot.Data, 0o644)
	})
}
