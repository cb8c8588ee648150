package run

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// startEtcd starts a real etcd server with one member, unless it is already running. startEtcd builds the server from etcd's own module,
// in the same version as the client. If the build fails, startEtcd uses the etcd in PATH.
func (r *Run) startEtcd() error {
	if r.etcd != nil {
		return nil
	}
	r.show.now("etcd: building the server, which takes a minute the first time")
	commandLine, err := builtEtcd()
	if err != nil {
		path, missing := exec.LookPath("etcd")
		if missing != nil {
			return fmt.Errorf("there is no etcd server: it could not be built, and none is in PATH (Debian, Ubuntu: apt-get install etcd-server): %w", err)
		}
		commandLine = func(port int, dir string) string {
			return fmt.Sprintf("%q --data-dir %q --listen-client-urls http://127.0.0.1:%d --advertise-client-urls http://127.0.0.1:%d "+
				"--listen-peer-urls http://127.0.0.1:0", path, dir+"/data", port, port)
		}
		version, _ := exec.Command(path, "--version").Output()
		r.results.AddVersion("etcd in PATH", string(version))
	}
	r.etcd, err = startServer("etcd", commandLine)
	return err
}

// builtEtcd builds the server into the user's cache and returns its command line.
func builtEtcd() (func(port int, dir string) string, error) {
	if err := inHere("etcdserver"); err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	program := filepath.Join(cache, "holdfast-bench", "etcdserver")
	if err := build(".", "go", "build", "-o", program, "./etcdserver"); err != nil {
		return nil, err
	}
	return func(port int, dir string) string { return fmt.Sprintf("%q %q %d", program, dir+"/data", port) }, nil
}
