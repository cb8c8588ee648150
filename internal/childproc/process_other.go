//go:build !unix

package childproc

import "errors"

func (p *Process) suspend() error { return errors.ErrUnsupported }

func (p *Process) resume() error { return errors.ErrUnsupported }
