package kin

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Strays returns the live processes of the run outside its group. Processes of a run inside this one are included only if inner is true,
// because the holdfast of that run passes signals on to them.
func (r Run) Strays(inner bool) []int {
	return r.find(func(pid, group int) bool { return group != r.Group && r.owns(pid, inner) })
}

// All returns the live processes of the run, inside and outside its group, except for this process and the guardian.
func (r Run) All() []int {
	return r.find(func(pid, group int) bool { return group == r.Group && live(pid) || r.owns(pid, true) })
}

// find returns the processes of this session, and of the command's own session, for which wanted returns true. It leaves out this process and
// the guardian.
func (r Run) find(wanted func(pid, group int) bool) (pids []int) {
	self := os.Getpid()
	session, err := unix.Getsid(0)
	if err != nil {
		return nil
	}
	for _, pid := range processes() {
		in, err := unix.Getsid(pid)
		if err != nil || pid == self || pid == r.Group || in != session && (in != r.Command || in == 0) {
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

// owns reports whether a process belongs to the run: the last of the process's marks is the run's or, if inner is true, any of them is. It
// returns false for a zombie, whose environment is empty.
func (r Run) owns(pid int, inner bool) bool {
	environment, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for entry := range bytes.SplitSeq(environment, []byte{0}) {
		if value, found := bytes.CutPrefix(entry, []byte(variable+"=")); found {
			marks := strings.Split(string(value), ",")
			return marks[len(marks)-1] == string(r.Mark) || inner && slices.Contains(marks, string(r.Mark))
		}
	}
	return false
}

// live reports whether a process has not ended.
func live(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, state, found := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return found && len(state) > 0 && state[0] != 'Z' && state[0] != 'X'
}
