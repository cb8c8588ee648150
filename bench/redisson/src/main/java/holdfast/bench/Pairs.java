package holdfast.bench;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** Repeats acquire, section, release during one window, with a thread for each of the workload's goroutines. */
final class Pairs {

    private static final long TICK_MS = 200;
    private static final int ONE_WRITER = 1 << 16; // weight of a writer; a reader weighs 1
    private static final long BRIEFLY_NANOS = TimeUnit.MICROSECONDS.toNanos(200);

    private final Contender contender;
    private final String kind;
    private final double reads;
    private final long section;
    private final boolean oracle;
    private final boolean fresh; // each name is used once
    private final int permits;
    private final int each;
    private final long[] pairs;
    private final List<Thread> workers = new ArrayList<>();
    private final Waits waits = new Waits();
    private final AtomicLong all = new AtomicLong();
    private final AtomicInteger waiting = new AtomicInteger();
    private final AtomicInteger stuck = new AtomicInteger();
    private final AtomicInteger overlaps = new AtomicInteger();
    private final AtomicInteger errors = new AtomicInteger();
    private final AtomicReference<String> first = new AtomicReference<>("");
    private final CountDownLatch begin = new CountDownLatch(1);
    private final CountDownLatch ended;
    private final AtomicLong longestIdle = new AtomicLong(); // longest time within the window in which nobody was in the section
    private final List<Double> seconds = new ArrayList<>(); // pairs/s
    private final ConcurrentHashMap<String, AtomicInteger> inside = new ConcurrentHashMap<>();
    private long secondBegan;
    private long secondBefore;
    private volatile long idleSince;
    private volatile boolean stopped;
    private volatile boolean abandoned;

    Pairs(Contender contender) {
        this.contender = contender;
        JsonNode workload = contender.workload;
        kind = contender.kind();
        reads = workload.path("reads").asDouble();
        section = workload.path("section").asLong();
        oracle = workload.path("oracle").asBoolean();
        fresh = workload.path("naming").asText().equals("fresh");
        permits = workload.path("permits").asInt();
        each = workload.path("goroutines").asInt();
        pairs = new long[contender.clients.size() * each];
        ended = new CountDownLatch(pairs.length);
    }

    Map<String, Object> run(JsonNode order) throws InterruptedException {
        contender.names.begin();
        double heap = fresh ? -Costs.heap() : -1;
        for (int i = 0; i < pairs.length; i++) {
            int worker = i;
            Thread thread = new Thread(() -> work(worker));
            workers.add(thread);
            thread.start();
        }
        TimeUnit.NANOSECONDS.sleep(order.path("start").asLong() - Contender.nanos(Instant.now()));
        long cpu = Costs.cpu();
        long start = System.nanoTime();
        idleSince = start;
        secondBegan = start;
        begin.countDown();
        long end = start + order.path("window").asLong();
        while (System.nanoTime() < end && ended.getCount() > 0) {
            ended.await(Math.min(end - System.nanoTime(), TimeUnit.MILLISECONDS.toNanos(TICK_MS)), TimeUnit.NANOSECONDS);
            progress();
            second();
        }
        if (waiting.get() == pairs.length) {
            idle();
        }
        stopped = true;
        Map<String, Object> sample = Contender.sample(System.nanoTime() - start, Costs.cpu() - cpu);
        while (!ended.await(TICK_MS, TimeUnit.MILLISECONDS)) {
            progress();
        }
        if (fresh) {
            sample.put("heap", heap + Costs.heap());
        }
        return sum(sample);
    }

    /** Notes the rate of a second that has just ended. */
    private void second() {
        long now = System.nanoTime();
        if (now - secondBegan >= TimeUnit.SECONDS.toNanos(1)) {
            long total = all.get();
            seconds.add((total - secondBefore) * 1e9 / (now - secondBegan));
            secondBegan = now;
            secondBefore = total;
        }
    }

    private void progress() {
        Main.report("progress", Map.of("pairs", all.get(), "waiting", waiting.get()));
    }

    void abandon() {
        abandoned = true;
        workers.forEach(Thread::interrupt);
    }

    private void work(int worker) {
        try {
            begin.await();
            RedissonClient client = contender.clients.get(worker / each);
            for (long n = 0; !stopped; n++) {
                String name = contender.names.next(worker, n);
                if (name == null) {
                    return;
                }
                pair(client, worker, name);
            }
        } catch (InterruptedException e) {
            stuck.incrementAndGet();
        } finally {
            ended.countDown();
        }
    }

    private void pair(RedissonClient client, int worker, String name) throws InterruptedException {
        try {
            if (kind.equals("semaphore")) {
                RSemaphore semaphore = client.getSemaphore(name);
                acquire(worker, semaphore::acquire);
                stay(client, name, 1, permits);
                semaphore.release();
            } else {
                boolean read = kind.equals("write") && ThreadLocalRandom.current().nextDouble() < reads;
                RLock lock = lock(client, name, read);
                acquire(worker, lock::lockInterruptibly);
                stay(client, name, read ? 1 : ONE_WRITER, read ? ONE_WRITER - 1 : ONE_WRITER);
                lock.unlock();
            }
        } catch (RuntimeException e) {
            if (abandoned) {
                throw new InterruptedException();
            }
            errors.incrementAndGet();
            first.compareAndSet("", e.toString());
            Thread.sleep(10);
            return;
        }
        all.incrementAndGet();
        if (!stopped) {
            pairs[worker]++;
        }
    }

    private RLock lock(RedissonClient client, String name, boolean read) {
        return switch (kind) {
            case "fair" -> client.getFairLock(name);
            case "write" -> {
                var both = client.getReadWriteLock(name);
                yield read ? both.readLock() : both.writeLock();
            }
            default -> client.getLock(name);
        };
    }

    private interface Acquire {
        void run() throws InterruptedException;
    }

    private void acquire(int worker, Acquire acquire) throws InterruptedException {
        waiting.incrementAndGet();
        try {
            long start = System.nanoTime();
            acquire.run();
            waits.add(worker, System.nanoTime() - start);
        } finally {
            waiting.decrementAndGet();
        }
    }

    private void idle() {
        if (!stopped) {
            longestIdle.accumulateAndGet(System.nanoTime() - idleSince, Math::max);
        }
    }

    /** Stays in the section, in which all holders of a name together may have at most the weight most. */
    private void stay(RedissonClient client, String name, int weight, int most) {
        idle();
        AtomicInteger within = fresh ? new AtomicInteger() : inside.computeIfAbsent(name, none -> new AtomicInteger());
        if (within.addAndGet(weight) > most) {
            overlaps.incrementAndGet();
        }
        if (oracle) {
            RAtomicLong inside = client.getAtomicLong("oracle:" + contender.prefix);
            boolean alone = inside.incrementAndGet() == 1;
            LockSupport.parkNanos(BRIEFLY_NANOS);
            if (inside.decrementAndGet() != 0 || !alone) {
                overlaps.incrementAndGet();
            }
        }
        if (section > 0) {
            LockSupport.parkNanos(section);
        }
        within.addAndGet(-weight);
        idleSince = System.nanoTime();
    }

    private Map<String, Object> sum(Map<String, Object> sample) {
        long[] perClient = new long[contender.clients.size()];
        long total = 0;
        for (int i = 0; i < pairs.length; i++) {
            perClient[i / each] += pairs[i];
            total += pairs[i];
        }
        sample.put("pairs", total);
        sample.put("all", all.get());
        sample.put("idle", longestIdle.get());
        sample.put("seconds", seconds);
        sample.put("perClient", perClient);
        sample.put("perWorker", pairs);
        sample.put("waits", waits.encode());
        sample.put("stuck", stuck.get());
        sample.put("overlaps", overlaps.get());
        sample.put("errors", errors.get());
        sample.put("error", first.get());
        return sample;
    }
}
