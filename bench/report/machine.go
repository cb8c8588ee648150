package report

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/bench/peer"
)

// Machine describes the machine of a run.
type Machine struct {
	OS     string `json:"os"`
	Kernel string `json:"kernel,omitempty"`
	Arch   string `json:"arch"`
	CPU    string `json:"cpu,omitempty"`
	Cores  int    `json:"cores"`
	Memory string `json:"memory,omitempty"`
	Load   string `json:"load,omitempty"` // load averages before the run, near 0 on a quiet machine
}

// Version is the exact version of something that was measured.
type Version struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// New begins the results of a run.
func New(quick bool, redis string) *Results {
	r := &Results{Quick: quick, Began: time.Now().UTC().Truncate(time.Second), Machine: machine()}
	r.Command = append([]string{"go run ."}, os.Args[1:]...)
	r.Versions = append([]Version{{"go", runtime.Version()}, {"redis-server", redis}, {"holdfast", Commit()}}, modules()...)
	return r
}

// End records when the run ended.
func (r *Results) End() { r.Ended = time.Now().UTC().Truncate(time.Second) }

func machine() Machine {
	m := Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Load: strings.Join(first(words("/proc/loadavg"), 3), " ")}
	if kernel := words("/proc/sys/kernel/osrelease"); len(kernel) > 0 {
		m.Kernel = kernel[0]
	}
	m.CPU = after("/proc/cpuinfo", "model name")
	m.Memory = after("/proc/meminfo", "MemTotal")
	return m
}

func words(file string) []string {
	text, _ := os.ReadFile(file)
	return strings.Fields(string(text))
}

func first(values []string, n int) []string { return values[:min(n, len(values))] }

// after looks in a file for the first line "name : value", and returns the value.
func after(file, name string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

const (
	unknownCommit = "unknown"
	dirtyMark     = "-dirty"
)

// Commit returns the commit of the measured code. A mark follows if the tree has changes or new files that are not in the commit.
func Commit() string {
	head, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		return unknownCommit
	}
	commit := strings.TrimSpace(string(head))
	if changes, err := exec.Command("git", "status", "--porcelain").Output(); err != nil || len(changes) > 0 {
		commit += dirtyMark
	}
	return commit
}

// Clean reports whether the commit is known, and the tree has no changes that are not in it.
func Clean() bool { return !strings.HasSuffix(Commit(), dirtyMark) && Commit() != unknownCommit }

// modules returns the contenders' modules with their linked versions.
func modules() (versions []Version) {
	linked := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			linked[m.Path] = m.Version
		}
	}
	seen := map[string]bool{}
	for _, p := range peer.All {
		for _, module := range p.Modules {
			if !seen[module] && linked[module] != "" {
				versions = append(versions, Version{module, linked[module]})
			}
			seen[module] = true
		}
	}
	return versions
}

// AddVersion records the version of something that is not a Go module. If the version is already recorded, AddVersion does nothing.
func (r *Results) AddVersion(name, version string) {
	v := Version{name, strings.TrimSpace(version)}
	if !slices.Contains(r.Versions, v) {
		r.Versions = append(r.Versions, v)
	}
}
