package kin_test

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/kin"
)

// start starts a shell that leads its own session and has a child there. It returns the IDs of both processes.
func start(t *testing.T, mark kin.Mark) (leader, child int) {
	t.Helper()
	command := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait")
	command.Env = mark.Environment(os.Environ())
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() { _ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL); _ = command.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	child, err = strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	return command.Process.Pid, child
}

// A guardian that does not know the command's process ID yet must find the command all the same, even if the command leads its own session. Once the
// guardian knows the ID, it treats processes in sessions other than its own and the command's as daemons.
func TestRun_CommandInItsOwnSession(t *testing.T) {
	t.Parallel()
	mark := kin.NewMark()
	leader, child := start(t, mark)
	group := os.Getpid() // no process of the run is in this group
	assert.ElementsMatch(t, []int{leader, child}, kin.Run{Mark: mark, Group: group}.All(), "the command is not known")
	assert.ElementsMatch(t, []int{leader, child}, kin.Run{Mark: mark, Group: group, Command: leader}.All(), "this is the command")
	assert.Empty(t, kin.Run{Mark: mark, Group: group, Command: child}.All(), "another process is the command")
	assert.Empty(t, kin.Run{Mark: kin.NewMark(), Group: group}.All(), "another run")
}
