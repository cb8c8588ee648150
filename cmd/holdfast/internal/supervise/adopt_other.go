//go:build unix && !linux

package supervise

import "syscall"

func adopt() {}

func dieWithParent(*syscall.SysProcAttr) {}
