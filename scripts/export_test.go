package scripts

// All is every script of the package.
var All = []*Script{lockAcquire, lockRelease, lockPass, lockRenew, lockInspect, lockForceRelease}
