import { type ServicesWorld, namespace, stepsMs } from './services-world.ts';
import { test, expect } from '@jest/globals';
import { makePair } from '../../../controller/webhook/certificate.ts';
import { PostServer } from '../../../lib/http/pages.ts';
import { systemClock } from '../../../lib/clock.ts';
import type { KubernetesObject } from '../../support/manifest/printing.ts';
import { waitFor } from '../../support/lab/kube-proxy-state.ts';
import { admit } from './services-injection.ts';
import { gateType } from '../../../lib/api/vipnat.ts';

/** Tests of a webhook of others that changes pods too, in namespaces that `testInjection` has made. */
export function testMesh(world: () => ServicesWorld): void {
  test('a container that another webhook adds afterwards gets its pause, too', async () => {
    const name = 'z-adder';
    const pair = await makePair(`${name}.${namespace}.svc`, new Date());
    const server = new PostServer({
      ...{ port: 0, path: '/', maxBytes: 1_000_000, clock: systemClock, title: '', remedy: '' },
      answer: addContainer,
      onRefused: () => undefined,
      onProblem: () => undefined,
      onRecovered: () => undefined,
    });
    server.setPair(pair);
    await server.start();
    const service = { name, namespace, path: '/', port: server.port };
    const caBundle = Buffer.from(pair.certificate).toString('base64');
    const rule = { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] };
    const webhook = {
      ...{ name: 'adder.example.com', clientConfig: { service, caBundle }, rules: [rule] },
      ...{ admissionReviewVersions: ['v1'], sideEffects: 'None' },
    };
    const apiVersion = 'admissionregistration.k8s.io/v1';
    const kind = 'MutatingWebhookConfiguration';
    const metadata = { name } as KubernetesObject['metadata'];
    try {
      await world().create({
        ...{ apiVersion: 'v1', kind: 'Service', metadata: { name, namespace } },
        spec: { type: 'ExternalName', externalName: 'localhost' },
      });
      await world().create({ apiVersion, kind, metadata, webhooks: [webhook] });
      const pause = { sleep: { seconds: 2 } };
      await waitFor(async () => (await admit(world(), {})).pauses.length === 2, stepsMs);
      expect(await admit(world(), {})).toMatchObject({
        gates: [gateType],
        pauses: [pause, pause],
        grace: 32,
      });
    } finally {
      const path = `/apis/${apiVersion}/mutatingwebhookconfigurations/${name}`;
      await world().api.ask({ method: 'DELETE', path });
      await server.stop();
    }
  });
}

/** Answers a review as a service mesh does, once for each pod. */
function addContainer(text: string): string {
  const { request } = JSON.parse(text) as {
    request: { uid: string; object: { spec: { containers: readonly object[] } } };
  };
  const operation = { op: 'add', path: '/spec/containers/-', value: { name: 'mesh', image: 'mesh' } };
  const patch = Buffer.from(JSON.stringify([operation])).toString('base64');
  const isFirst = request.object.spec.containers.length === 1;
  const response = { uid: request.uid, allowed: true, ...(isFirst ? { patchType: 'JSONPatch', patch } : {}) };
  return JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response });
}
