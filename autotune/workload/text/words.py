"""Vocabularies. Written for this project; every list is read as words in any order.

The verbs are regular ones without a doubled consonant, so that their forms can be derived.
"""

from __future__ import annotations

NOUNS = """
account address adapter agenda alarm album alert anchor answer archive article asset atlas auction
audience badge balance ballot banner barcode basket batch beacon billing binder blob blueprint board
booking bookmark border branch bridge broker bucket budget buffer builder bundle button cabinet
calendar campaign canvas capsule card cargo cart catalog channel chapter charge chart checkpoint
circuit citizen claim client clinic cluster codec cohort collector column comment company compass
consent console contract coupon courier course credit crew currency cursor customer dashboard
dataset deadline dealer deck deposit desk device diagram dialog digest discount dispatch district
document domain donation donor draft driver edge editor elevator email employee engine entry
envelope episode estimate event exam exchange exhibit expense export fabric facet factor factory
fare feature feed fence field figure filter fixture flight folder footer forecast forest form forum
frame freight gallery gateway gauge glossary grant graph grid group guest guide harbor header heater
holiday hospital hotel image inbox incident index insight inspection intake inventory invoice island
journal journey kernel kiosk label ladder landing language lantern layer layout leaf ledger lesson
letter library licence limit link listing loan locale locker lookup lottery machine magazine mailbox
manifest margin marker market material matrix measure medal meeting member memo menu merchant
message meter metric mirror mission module moment monitor motor museum network notice number object
offer office operator option orbit order outage outlet owner packet page palette panel parcel
parking partner passage passport password patient pattern payment payroll peer permit petition photo
pickup pilot pipeline pixel planet plant platform playlist plugin pocket point policy pool portal
portfolio poster prefix premium press price printer profile project prompt property proposal
provider quarter query queue quota quote rack radar ranking rate reading rebate receipt recipe
record refund region registry relay reminder renewal rental replica report request reserve resident
resource response review reward rider robot role roster route routine rule sample satellite schedule
schema scholar scope score screen script sector segment seller sensor series server service session
shape shard shelf shift shipment shop signal sketch slice slot snapshot socket source species
sponsor sprint stack stage stall stamp station status storage store stream street student studio
subject summary supplier survey switch symbol system table tariff tax team template tenant tender
terminal texture theater thread ticket timer title token topic tower track trade trailer transfer
transit traveler treaty trigger truck tunnel turbine tutor unit update upload usage vault vector
vehicle vendor venue version viewer village visit visitor volume voter voucher wallet warehouse
warranty water weather webhook widget window witness worker workflow workshop yard zone
""".split()

VERBS = """
absorb accept activate adjust advance align allocate amend analyse announce append approve archive
arrange assemble assign attach audit greet balance block borrow calculate cancel capture certify
charge check claim clean clear collapse collect combine compare compile complete compress compute
concatenate confirm connect consume convert correct count cover crawl create credit deliver deploy
describe detach detect discard dispatch display divide download draft duplicate elect encode enforce
enqueue ensure enter escape estimate evaluate examine exclude execute expand expire explain export
expose extend extract fetch fill finalise flatten flush fold follow forward gather generate guard
handle hash highlight hydrate identify ignore include increase index infer inject insert inspect
install interpolate invalidate invite invoke isolate iterate join justify label launch limit link
list load locate lock measure merge migrate mirror monitor mount mutate negotiate normalise notice
notify obtain offer open order pack paginate parse patch pause persist poll populate prepare present
preserve probe process produce promote propagate protect prove provide prune publish pull purge push
qualify query queue quote rank reach rebalance receive recommend reconcile record recover redact
reduce refresh refund register reject relabel release reload remove rename render renew repair
repeat replace replay report request require reserve resize resolve restore resume retain retire
retry review revoke rotate round sample sanitise save scale schedule score seal search select
serialise settle shorten shuffle sign simulate sort stage start store stream suggest summarise
suppress throttle touch trace track transform translate trigger truncate unlock unpack update
upgrade upload validate verify visit warm watch weigh widen
""".split()

ADJECTIVES = """
absent accurate active adjacent annual archived available average backup bare binary bold brief
bright broad busy calm central certain cheap chosen clean closed coarse cold common compact complete
complex constant correct costly current custom daily damaged dark dated dead deep default deferred
dense direct dirty distant double early eager elastic empty equal exact expired explicit external
extra failed faint false fast final fine finite first fixed flat foreign formal former free fresh
frozen full future general generic global gradual grand greedy half hidden high hollow hourly idle
implicit inactive initial inner internal invalid joint large last late lazy legacy light linear
liquid literal little live local locked long loose lost major manual massive maximal median minimal
minor missing mixed mobile modern monthly mutable naive narrow national native nearby neutral
nightly noisy nominal normal novel numeric obsolete odd offline open optional ordinary original
orphaned outer overdue parallel partial passive peak pending plain polite portable possible
preferred premature previous primary private prior proper public pure quick quiet random rapid rare
raw ready recent regional regular relative remote repeated reverse rigid robust rough safe scarce
second secure separate shallow shared sharp short signed silent similar simple single slow small
smooth soft solid spare sparse special stable stale static steady strict subtle sudden suspended
symbolic tall temporal tentative thin tidy tiny total trusted typical unique unknown unread unsafe
unsorted unused upper urgent useful usual vacant valid vast verbose virtual visible warm weak weekly
weighted whole wide yearly young
""".split()

KINDS = """
id ids count total index map list path name key keys size offset limit rank ratio hash state flag
mode level depth width age cost delta span gap seed slug text value values rows items batch buffer
cache handle table tree node set pair window cursor token stamp version owner parent source target
""".split()

ROLES = """
adapter allocator analyser archiver balancer builder checker cleaner client collector compiler
controller converter decoder dispatcher encoder exporter factory fetcher filter formatter gateway
generator guard handler importer indexer inspector iterator listener loader locator manager mapper
matcher merger monitor notifier observer parser planner policy pool processor provider publisher
reader reconciler recorder registry renderer repository resolver router runner sampler scanner
scheduler selector serializer sorter store strategy tracker validator visitor watcher writer
""".split()

ADVERBS = """
almost always barely briefly carefully certainly clearly consistently correctly currently
deliberately directly eagerly early entirely eventually exactly explicitly fairly finally formally
generally gradually hardly immediately implicitly indirectly initially instantly lazily likely
loosely mainly manually merely mostly naturally nearly never normally occasionally often only openly
partly periodically possibly precisely previously probably promptly properly quickly quietly
randomly rarely readily recently repeatedly roughly safely seldom separately sequentially sharply
silently simply slightly slowly sometimes soon steadily strictly suddenly temporarily twice
typically usually
""".split()

PLACES = """
Aarhus Accra Adelaide Antwerp Arequipa Baku Bamako Bergen Bilbao Bologna Brno Busan Cairns Calgary
Cardiff Chennai Cork Cusco Dakar Darwin Davao Denver Dresden Dublin Durban Essen Faro Galway Gdansk
Geneva Ghent Girona Graz Haifa Halifax Hanoi Hobart Izmir Jaipur Kampala Kobe Kigali Lagos Leeds
Lille Lima Linz Lisbon Lyon Malaga Manila Medellin Montreal Mumbai Nantes Naples Odense Osaka Oulu
Padua Perth Porto Pune Quito Recife Riga Rosario Seville Sofia Tallinn Tampere Tartu Tbilisi Toledo
Trieste Tunis Turin Utrecht Valparaiso Vilnius Winnipeg Zagreb
""".split()

PEOPLE = """
Adaeze Agnes Ahmed Aiko Alba Alejandro Amara Anders Anika Antonio Asha Astrid Beatriz Bogdan Carmen
Cedric Chidi Clara Dalia Dario Delphine Diego Ebba Elif Emeka Enrique Esra Farah Felix Fiona Gabriel
Greta Hana Hassan Hugo Ida Ignacio Imran Ines Ivo Jasmin Joao Jonas Juna Kaito Karim Katya Kenji
Laila Lars Leonie Linh Lucia Magnus Malik Marek Marta Mei Mihai Mina Nadia Naoki Nelson Nikos Nour
Olga Omar Pablo Paula Petra Priya Rafael Rania Rosa Ruben Sanna Selma Sergio Shirin Sofia Stefan
Tariq Thandi Tomas Uma Veera Viktor Wanjiru Yara Yusuf Zofia
""".split()
