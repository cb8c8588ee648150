# Targets for developers. CI runs .ci/run, which needs no make.

REDIS_PORT ?= 6399
SIM_FIRST ?= 1
SOAK_FOR ?= 30m
SOAK_CLUSTER_FOR ?= 20m
FUZZTIME ?= 60s

.DEFAULT_GOAL := help
.PHONY: help quickstart test race lint bench bench-inner bench-check sim mutants linearize waits soak soak-cluster fuzz golden interop redis page site terminal ci check

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

quickstart: ## run the quickstart example, on a Redis inside the process
	go run ./examples/quickstart

test: ## gofmt, vet and the tests in their short forms: some minutes
	./test.sh

race: ## the same with the race detector on the packages of the main module
	./test.sh -race

lint: ## golangci-lint, which the first use builds
	./.ci/lint

bench: ## Holdfast beside other libraries, an hour or two on a quiet machine; writes bench/results/*.json and a page
	cd bench && go run .

bench-inner: ## the benchmarks of inner parts, for benchstat
	go test -run '^$$' -bench . -benchmem -count 10 -timeout 2h ./timerwheel ./actors/...
	cd bench && go test -run '^$$' -bench . -benchmem -count 10 -timeout 2h ./...

bench-check: ## fails if, in each of three runs, a ratio of Holdfast to another library is a quarter below that in bench/results/reference.json
	cd bench && go run . -check results/reference.json -reps 3

sim: ## 5 000 simulated worlds; SIM_FIRST is the first seed. One world: go test ./internal/sim -run TestSim -sim.seed=N -v
	for i in 0 1 2 3 4 5 6 7 8 9; do \
		go test ./internal/sim -timeout 30m -v -run 'TestSim$$' -sim.count 500 -sim.first $$(($(SIM_FIRST) + 500 * i)) || exit 1; \
	done # in ten processes, because each world leaks a megabyte
	go test ./internal/sim -timeout 60m -v -run TestSim_SameSeedSameHistory -sim.count 200 -sim.first $(SIM_FIRST)

mutants: ## break scripts and the runtime on purpose, and check that the simulation notices; writes the table in SAFETY.md
	go test ./internal/sim -timeout 60m -v -run TestMutants_ -sim.mutants

linearize: ## 20 s of faults for each kind of lock on a real Redis, checked by porcupine; then the same with scripts that are broken on purpose
	go test ./internal/linearize -parallel 2 -timeout 30m -v -run 'TestLinearize($$|_Server)' -linearize.duration 20s -linearize.rate 200
	go test ./internal/linearize -parallel 2 -timeout 30m -v -run 'TestLinearize_Mutants'

waits: ## waits that end about when they begin: 800 000 for each of several time limits up to 2 ms, with GOMAXPROCS=32, some minutes
	go test ./internal/faults -cpu 32 -timeout 30m -v -run 'TestFault_WaitsEnd/^lock' -waits.count 100000

fuzz: ## every fuzz target in turn, for FUZZTIME (60s) each
	@grep -rl '^func Fuzz' --include='*_test.go' . | xargs -n 1 dirname | sort -u | while read -r package; do \
		for target in $$(grep -ho '^func Fuzz[A-Za-z_]*' $$package/*_test.go | cut -d ' ' -f 2); do \
			go test $$package -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x || exit 1; \
		done; \
	done

soak: ## all kinds of locks and of faults for SOAK_FOR (30m); writes internal/soak/REPORT.md
	go test ./internal/soak -v -timeout 0 -run 'TestSoak$$' -soak.for $(SOAK_FOR) -soak.report internal/soak/REPORT.md

soak-cluster: ## the same on a cluster, with failovers, slots that move and passwords that change, for SOAK_CLUSTER_FOR (20m); writes internal/soak/CLUSTER.md
	go test ./internal/soak -v -timeout 0 -run 'TestSoakCluster$$' -soak.for $(SOAK_CLUSTER_FOR) -soak.report internal/soak/CLUSTER.md

golden: ## write the golden files in testdata/ again; read the diff before committing it
	go test ./actors/lock ./actors/counter ./scripts -rewrite
	go test . -run TestErrors_Texts -rewrite

interop: ## the tests with the real Redisson, which need a JDK and Maven; writes interop/README.md's table
	./interop/run -rewrite

redis: ## a temporary Redis in the foreground, on REDIS_PORT (6399)
	redis-server --port $(REDIS_PORT) --bind 127.0.0.1 --save '' --appendonly no

page: ## the page in a real browser, which is installed if that needs no password; takes the pictures in doc/ again
	./.ci/page -install -pictures

site: ## the documents as a static site, in ./site
	./.ci/site site

terminal: ## the command line in a terminal; takes the pictures in doc/ again
	cd cmd/holdfast/terminaltest && go test -count=1 . -pictures "$(CURDIR)/doc"

ci: ## what CI runs
	./.ci/run

check: ## everything in full, an hour or two on a quiet machine; writes doc/checked.md. Only some parts: .ci/check sim mutants
	./.ci/check
