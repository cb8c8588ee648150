package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// older reports whether a file is missing, or older than one of its sources.
func older(file, sources string) bool {
	made, err := os.Stat(file)
	if err != nil {
		return true
	}
	var newest time.Time
	_ = filepath.WalkDir(sources, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if info, err := entry.Info(); err == nil && info.ModTime().After(newest) && !strings.Contains(path, "/target/") {
			newest = info.ModTime()
		}
		return nil
	})
	return newest.After(made.ModTime())
}

// inHere returns an error unless the harness runs where its sources are.
func inHere(source string) error {
	if _, err := os.Stat(source); err != nil {
		return fmt.Errorf("%s does not exist here: run the harness in bench/, with go run", source)
	}
	return nil
}

// find returns the path of a program, or an error that says what to install.
func find(program, install string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("%s is not in PATH: install %s, or leave this contender out with -peers", program, install)
	}
	return path, nil
}

// build runs a build. If it fails, the error has the first lines of its output.
func build(dir, program string, args ...string) error {
	command := exec.Command(program, args...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return errors.New(strings.Join(append([]string{program, strings.Join(args, " ") + ":", err.Error() + ":"}, lines[:min(len(lines), 5)]...), " "))
	}
	return nil
}
