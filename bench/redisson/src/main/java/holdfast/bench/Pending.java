package holdfast.bench;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.redisson.api.RLock;

/** Waits very many times for a lock that another client holds, with Redisson's asynchronous methods, which need no thread for each wait. */
final class Pending {

    private static final long SETTLE_MS = 500;
    private static final long FIRST_OWNER = 1L << 40; // passed as a thread id; no thread has one so high

    private final Contender contender;
    private final AtomicInteger served = new AtomicInteger();
    private final AtomicInteger errors = new AtomicInteger();
    private final AtomicReference<String> first = new AtomicReference<>("");

    Pending(Contender contender) {
        this.contender = contender;
    }

    Map<String, Object> run(JsonNode order) throws InterruptedException {
        int n = contender.workload.path("names").asInt();
        RLock lock = contender.clients.get(contender.clients.size() - 1).getLock(contender.names.hot());
        CountDownLatch left = new CountDownLatch(n);
        double heap = -Costs.heap();
        long start = System.nanoTime();
        for (int i = 0; i < n; i++) {
            long owner = FIRST_OWNER + i;
            lock.lockAsync(owner).thenCompose(held -> lock.unlockAsync(owner)).whenComplete((none, failure) -> {
                if (failure == null) {
                    served.incrementAndGet();
                } else {
                    errors.incrementAndGet();
                    first.compareAndSet("", failure.toString());
                }
                left.countDown();
            });
        }
        long began = System.nanoTime() - start;
        Thread.sleep(SETTLE_MS);
        heap += Costs.heap();

        Main.report("mark", Map.of());
        long cpu = Costs.cpu();
        start = System.nanoTime();
        TimeUnit.NANOSECONDS.sleep(order.path("window").asLong());
        Map<String, Object> sample = Contender.sample(System.nanoTime() - start, Costs.cpu() - cpu);
        Main.report("mark", Map.of());
        sample.put("errors", errors.get());
        sample.put("error", first.get());

        contender.drained.await();
        start = System.nanoTime();
        left.await(order.path("window").asLong(), TimeUnit.NANOSECONDS);
        sample.put("heap", heap);
        sample.put("acquireNs", began);
        sample.put("drainNs", System.nanoTime() - start);
        sample.put("served", served.get());
        return sample;
    }
}
