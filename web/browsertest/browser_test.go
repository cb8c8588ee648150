package browsertest

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// browsers are the programs that can serve as the browser, in the order in which they are tried: the lightest first.
var browsers = []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"}

// patience is enough for a browser on a busy machine.
const patience = time.Minute

// tab is the only tab of a browser that was started for it.
type tab struct {
	context.Context
	t *testing.T

	mu       sync.Mutex
	problems []string // the browser's complaints
}

// open starts a browser. If there is none, or the tests run in short mode, it skips the test.
func open(t *testing.T, options ...chromedp.ExecAllocatorOption) *tab {
	t.Helper()
	if testing.Short() {
		t.Skip("the page is not opened in a browser in the short form: .ci/page does it")
	}
	program := ""
	for _, name := range browsers {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("no browser: none of " + strings.Join(browsers, ", ") + " is in PATH; .ci/page -install installs one")
	}
	options = append(append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WSURLReadTimeout(patience)), options...)
	limited, cancel := context.WithTimeout(t.Context(), patience)
	started, stop := chromedp.NewExecAllocator(limited, options...)
	ctx, leave := chromedp.NewContext(started)
	tb := &tab{Context: ctx, t: t}
	t.Cleanup(func() { leave(); stop(); cancel() })
	require.NoError(t, chromedp.Listen(ctx, tb.note))
	tb.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, log.Enable, cdp.Empty{})
		return err
	}))
	return tb
}

// note records the browser's complaints: violations of the Content-Security-Policy, and errors of the page's script.
func (b *tab) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			b.problems = append(b.problems, e.Entry.Text+" "+e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, fmt.Sprint(e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	}
}

// complaints returns the complaints so far.
func (b *tab) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.problems
}

// do performs actions as a person would.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b, actions...))
}

// sees waits until a condition in JavaScript holds.
func (b *tab) sees(condition string) {
	b.t.Helper()
	looks := time.NewTicker(20 * time.Millisecond)
	defer looks.Stop()
	for ; b.Err() == nil; <-looks.C {
		if so, err := chromedp.Run(b, chromedp.Evaluate[bool]("Boolean("+condition+")")); err == nil && so { // an error means that the page is loading
			return
		}
	}
	require.Fail(b.t, "the condition does not become true", "%s", condition)
}

// text returns the value of a JavaScript expression, as text.
func (b *tab) text(expression string) string {
	b.t.Helper()
	text, err := chromedp.Run(b, chromedp.Evaluate[string]("String("+expression+")"))
	require.NoError(b.t, err)
	return text
}
