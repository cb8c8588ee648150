package childproc_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/childproc"
)

func TestMain(m *testing.M) {
	childproc.Register("echo", echo)
	childproc.Register("greet", func() { fmt.Println("hello", os.Getenv("NAME")) })
	childproc.Register("panic", func() { panic("on purpose") })
	childproc.Register("unfinished", func() { fmt.Print("no newline") })
	childproc.Register("parent", parent)
	childproc.Main()
	goleak.VerifyTestMain(m)
}

// echo answers every line of its input until the input ends.
func echo() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println("got", lines.Text())
	}
}

// parent starts a child of its own, which runs for ten minutes and also holds the write end of the output. Then parent blocks for ever.
func parent() {
	sleep := exec.Command("sleep", "600")
	sleep.Stdout = os.Stdout
	if _, err := childproc.Spawn(sleep); err != nil {
		panic(err)
	}
	fmt.Println("started")
	select {}
}

func TestRun_PassesEnvironmentAndExitsWithZero(t *testing.T) {
	h := childproc.Run(t, "greet", "NAME=world")
	assert.Equal(t, "hello world", h.Line())
	assert.NoError(t, h.Wait())
	_, err := h.ReadLine(time.Minute)
	assert.Equal(t, io.EOF, err)
}

func TestRun_TalksInLines(t *testing.T) {
	h := childproc.Run(t, "echo")
	for i := range 100 {
		h.Send("line %d", i)
		require.Equal(t, fmt.Sprintf("got line %d", i), h.Line())
	}
	h.CloseInput()
	assert.NoError(t, h.Wait())
}

func TestRun_LastLineNeedsNoNewline(t *testing.T) {
	h := childproc.Run(t, "unfinished")
	assert.Equal(t, "no newline", h.Line())
}

func TestRun_UnknownEntryEndsWithStatusTwo(t *testing.T) {
	h := childproc.Run(t, "nobody")
	var exit *exec.ExitError
	require.ErrorAs(t, h.Wait(), &exit)
	assert.Equal(t, 2, exit.ExitCode())
	assert.Contains(t, h.Stderr(), `no entry is registered as "nobody"`)
}

func TestRun_PanicOfTheChildIsAnErrorOfWait(t *testing.T) {
	h := childproc.Run(t, "panic")
	require.Error(t, h.Wait())
	assert.Contains(t, h.Stderr(), "on purpose")
}

func TestRegister_RefusesATakenName(t *testing.T) {
	assert.Panics(t, func() { childproc.Register("echo", echo) })
}

func TestHandle_KillEndsTheChildAndMayBeRepeated(t *testing.T) {
	h := childproc.Run(t, "echo")
	h.Kill()
	h.Kill()
	assert.Error(t, h.Wait())
	_, err := h.ReadLine(time.Minute)
	assert.Equal(t, io.EOF, err)
}

func TestHandle_StoppedChildAnswersOnlyAfterCont(t *testing.T) {
	h := childproc.Run(t, "echo")
	h.Send("a")
	require.Equal(t, "got a", h.Line())

	require.NoError(t, h.Stop())
	h.Send("b")
	_, err := h.ReadLine(50 * time.Millisecond)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)

	require.NoError(t, h.Cont())
	assert.Equal(t, "got b", h.Line())
}

func TestHandle_StopOfAnEndedChildIsAnError(t *testing.T) {
	h := childproc.Run(t, "greet")
	require.NoError(t, h.Wait())
	assert.Error(t, h.Stop())
	assert.Error(t, h.Cont())
}

func TestSpawn_MissingBinaryIsAnError(t *testing.T) {
	_, err := childproc.Spawn(exec.Command("/does/not/exist"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}
