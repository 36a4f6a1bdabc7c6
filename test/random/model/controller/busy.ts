import { type Cluster } from './cluster.ts';
import { type SimulatedController } from './controller.ts';

/** Some controllers and nodes do what they can, several times. All nodes unless given. */
export function busy(
  cluster: Cluster,
  controllers: readonly SimulatedController[],
  times: number,
  nodes = cluster.nodes,
): void {
  for (let left = times; left > 0; left -= 1) {
    for (const node of nodes) {
      node.program(Infinity);
      node.report();
    }
    for (const controller of controllers) {
      controller.hearAll();
      for (const key of controller.due) controller.take(key);
      while (controller.inFlight > 0) controller.proceed(0, 'done');
    }
  }
}
