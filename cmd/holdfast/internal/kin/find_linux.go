package kin

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Strays returns the live processes of the run that are outside its group. If inner is false, Strays leaves out the processes of inner runs: each
// inner run has its own holdfast process, which passes signals on to them.
func (r Run) Strays(inner bool) []int {
	return r.find(func(pid, group int) bool { return group != r.Group && r.owns(pid, inner) })
}

// All returns the live processes of the run, inside and outside its group, except for this process and the guardian.
func (r Run) All() []int {
	return r.find(func(pid, group int) bool { return group == r.Group && live(pid) || r.owns(pid, true) })
}

// Dead reports whether only zombies are left in the group. A zombie stays in the group until its parent reaps it, and until then the group exists.
// The parent may never reap it: for example, the parent may be a daemon that started the process and then left the group. Dead returns false if it
// sees no process of the group, because /proc may hide some.
func (r Run) Dead() bool {
	zombies := 0
	for _, pid := range processes() {
		if group, err := unix.Getpgid(pid); err != nil || group != r.Group {
			continue
		}
		if live(pid) {
			return false
		}
		zombies++
	}
	return zombies > 0
}

// find returns the processes that the function `wanted` accepts, except for this process and the guardian. It searches this session and the session
// that the command leads. As long as the command's process ID is unknown, find searches all sessions: holdfast may have been stopped after it started
// the command, but before it told the guardian.
func (r Run) find(wanted func(pid, group int) bool) (pids []int) {
	self := os.Getpid()
	session, err := unix.Getsid(0)
	if err != nil {
		return nil
	}
	for _, pid := range processes() {
		in, err := unix.Getsid(pid)
		if err != nil || pid == self || pid == r.Group || in != session && (in == 0 || r.Command != 0 && in != r.Command) {
			continue
		}
		if group, err := unix.Getpgid(pid); err == nil && wanted(pid, group) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// processes returns the IDs of all processes. It returns none if /proc belongs to another PID namespace, as in a container that has not mounted
// its own /proc: the IDs there belong to other processes.
func processes() (pids []int) {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil
	}
	folder, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = folder.Close() }()
	names, _ := folder.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// owns reports whether a process belongs to the run. If inner is false, the mark of the run must be the last of the process's marks. If inner is
// true, it may be any of them.
func (r Run) owns(pid int, inner bool) bool {
	for entry := range bytes.SplitSeq(environment(pid), []byte{0}) {
		if value, found := bytes.CutPrefix(entry, []byte(variable+"=")); found {
			marks := strings.Split(string(value), ",")
			return marks[len(marks)-1] == string(r.Mark) || inner && slices.Contains(marks, string(r.Mark))
		}
	}
	return false
}

// The environment of a process is empty for some microseconds during execve, and for ever if the process was started without an environment.
const (
	execTries = 50
	execEvery = 100 * time.Microsecond
)

// environment returns the environment of a process. It is empty for a zombie.
func environment(pid int) (env []byte) {
	for range execTries {
		var err error
		if env, err = os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ"); err != nil || len(env) > 0 || !live(pid) {
			break
		}
		time.Sleep(execEvery)
	}
	return env
}

// live reports whether a process has not ended. A process whose first thread has ended looks like a zombie while other threads still run.
func live(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, state, found := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	if !found || len(state) == 0 {
		return false
	}
	if state[0] != 'Z' && state[0] != 'X' {
		return true
	}
	threads, _ := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	return len(threads) > 1
}
