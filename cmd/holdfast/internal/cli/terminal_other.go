//go:build !unix

package cli

import "os"

// sizeOf knows no terminals on this system.
func sizeOf(*os.File) (columns, rows int, ok bool) { return 0, 0, false }
