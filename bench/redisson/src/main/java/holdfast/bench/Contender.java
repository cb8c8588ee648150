package holdfast.bench;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** The Redisson clients of a workload, each with its own connections and id, as if it were in its own process. */
final class Contender {

    private static final int FEW = 4; // threads of each client when one JVM stands for many processes

    final JsonNode workload;
    final Names names;
    final String prefix;
    final List<RedissonClient> clients = new ArrayList<>();
    final CountDownLatch drained = new CountDownLatch(1);
    private final List<ExecutorService> steppers = new ArrayList<>(); // one thread for each client, because a lock belongs to a thread
    private volatile Pairs pairs;

    Contender(JsonNode order) {
        workload = order.path("workload");
        prefix = order.path("prefix").asText();
        names = new Names(workload, prefix);
        int n = workload.path("clients").asInt();
        JsonNode env = order.path("env");
        for (int i = 0; i < n; i++) {
            clients.add(Redisson.create(config(env, n)));
            steppers.add(Executors.newSingleThreadExecutor());
        }
        if (kind().equals("semaphore")) {
            clients.get(0).getSemaphore(names.hot()).trySetPermits(env.path("Permits").asInt());
        }
    }

    private static Config config(JsonNode env, int clients) {
        Config config = new Config();
        config.setLockWatchdogTimeout(TimeUnit.NANOSECONDS.toMillis(env.path("Lease").asLong()));
        var server = config.useSingleServer().setAddress("redis://" + env.path("Redis").asText());
        if (clients > 1) {
            config.setThreads(FEW).setNettyThreads(FEW);
            server.setConnectionMinimumIdleSize(FEW);
        }
        return config;
    }

    String kind() {
        return workload.path("lock").asText();
    }

    /** Runs in the background, so that later orders can be read. */
    void start(JsonNode order) {
        Thread run = new Thread(() -> {
            try {
                Map<String, Object> sample = switch (workload.path("shape").asText()) {
                    case "holding" -> new Holding(this).run(order);
                    case "pending" -> new Pending(this).run(order);
                    default -> {
                        pairs = new Pairs(this);
                        yield pairs.run(order);
                    }
                };
                Main.report("done", Map.of("sample", sample));
            } catch (Exception e) {
                Main.failed(0, e);
            }
        });
        run.start();
    }

    void abandon() {
        if (pairs != null) {
            pairs.abandon();
        }
    }

    void drain() {
        drained.countDown();
    }

    /** Acquires the hot lock, and reports the instant at which it had the lock. */
    void acquire(int client) {
        steppers.get(client).execute(() -> {
            try {
                clients.get(client).getLock(names.hot()).lock();
                Main.report("at", at(client, Instant.now()));
            } catch (RuntimeException e) {
                Main.failed(client, e);
            }
        });
    }

    /** Releases the hot lock, and reports the instant at which it began to. */
    void release(int client) {
        steppers.get(client).execute(() -> {
            try {
                Instant began = Instant.now();
                clients.get(client).getLock(names.hot()).unlock();
                Main.report("at", at(client, began));
            } catch (RuntimeException e) {
                Main.failed(client, e);
            }
        });
    }

    private static Map<String, Object> at(int client, Instant instant) {
        return Map.of("client", client, "at", nanos(instant));
    }

    static long nanos(Instant instant) {
        return TimeUnit.SECONDS.toNanos(instant.getEpochSecond()) + instant.getNano();
    }

    void close() {
        steppers.forEach(ExecutorService::shutdownNow);
        clients.forEach(client -> client.shutdown(0, 2, TimeUnit.SECONDS));
    }

    /** Returns a sample with the fields that every sample has. */
    static Map<String, Object> sample(long elapsed, long cpu) {
        Map<String, Object> sample = new HashMap<>();
        sample.put("elapsed", elapsed);
        sample.put("cpu", cpu);
        sample.put("allocs", -1);
        sample.put("heap", -1);
        return sample;
    }
}
