import {Foo} from './foo'
const A = ({a, text}: Props) => <ns.Comp a={b} {...rest} c="d"><Foo x:y={1}/><div onClick={handle}>{text}</div><></></ns.Comp>;
export function App<T extends X>(p: T) { const [s, setS] = useState<S>(null); useEffect(() => { setS(p) }); return <A {...s}>{items.map(i => <Item key={i.id}/>)}</A> }
