package run

import (
	"errors"
	"fmt"
	"os/exec"
)

// startEtcd starts a real etcd server of one member, once: the one in PATH, or the one built of etcd's own module.
func (r *Run) startEtcd() error {
	if r.etcd != nil {
		return nil
	}
	program, err := exec.LookPath("etcd")
	if err != nil {
		return errors.New("there is no etcd in PATH")
	}
	r.etcd, err = startServer("etcd", func(port int, dir string) string {
		return fmt.Sprintf("%q --data-dir %q --listen-client-urls http://127.0.0.1:%d --advertise-client-urls http://127.0.0.1:%d "+
			"--listen-peer-urls http://127.0.0.1:0 --log-level error", program, dir+"/data", port, port)
	})
	return err
}
